// Package people stores who may use the installation: accounts and their sessions, projects with their members and
// quotas, programs' tokens, passkeys and links to shared reports. Secrets that authenticate somebody are stored as
// hashes. It also stores who did what, in the audit log: entries that are only ever added, each with a hash that covers
// the one before it.
package people

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"time"

	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// The kinds of objects that errors name if such an object does not exist.
const (
	KindUser    db.Kind = "user"
	KindProject db.Kind = "project"
	KindToken   db.Kind = "token"
	KindSession db.Kind = "session"
	KindPasskey db.Kind = "passkey"
	KindShare   db.Kind = "share"
	KindView    db.Kind = "view"
)

// Role is what a member of a project may do; each role includes the rights of the roles before it.
type Role string

// The roles, in ascending order.
const (
	Viewer   Role = "viewer"
	Reviewer Role = "reviewer"
	Editor   Role = "editor"
	Admin    Role = "admin"
)

// Roles lists all roles, in ascending order.
var Roles = []Role{Viewer, Reviewer, Editor, Admin}

// rank returns the position of a role among the roles, from 1; 0 for anything that is not a role.
func (r Role) rank() int {
	for n, role := range Roles {
		if role == r {
			return n + 1
		}
	}
	return 0
}

// IsKnown reports whether the role is one of Roles.
func (r Role) IsKnown() bool { return r.rank() > 0 }

// Allows reports whether the role includes the rights of another.
func (r Role) Allows(need Role) bool { return r.IsKnown() && need.IsKnown() && r.rank() >= need.rank() }

// Least returns the lower of two roles.
func Least(a, b Role) Role {
	if a.rank() < b.rank() {
		return a
	}
	return b
}

// People reads and writes accounts, sessions, projects, tokens, passkeys and links.
type People struct{ db *pg.Pool }

// New returns the people in a store's database.
func New(store *db.Store) People { return People{store.Pool()} }

// changesChannel carries a notification whenever a change to an account, a membership, a session, a token or a link
// changes someone's rights.
const changesChannel = "wending_access"

// ListenForChanges calls changed whenever rights change, in any process, until ctx ends. It also calls changed when
// listening begins and after every reconnect, because changes may have been missed. url must point to the server
// itself, not to a pooler.
func ListenForChanges(ctx context.Context, url string, changed func()) error {
	return pg.Listen(ctx, url, changesChannel, func(string) { changed() })
}

// change runs work in a transaction and announces that rights have changed.
func (p People) change(ctx context.Context, doing string, work func(*sqlx.Tx) error) error {
	return p.db.InTx(ctx, doing, func(tx *sqlx.Tx) error {
		if err := work(tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `SELECT pg_notify($1, '')`, changesChannel)
		return pg.Classify("announce a change of rights", err)
	})
}

// changeRow is like change, but for one statement; if it affects no row, the error names an object of the given kind.
func (p People) changeRow(ctx context.Context, kind db.Kind, doing, statement string, arguments ...any) error {
	return p.change(ctx, doing, func(tx *sqlx.Tx) error {
		result, err := tx.ExecContext(ctx, statement, arguments...)
		changed, err := pg.Affected(doing, result, err)
		if err == nil && changed == 0 {
			return &db.NotFoundError{Kind: kind}
		}
		return err
	})
}

// NewSecret returns a secret of 130 random bits, made of letters and digits.
func NewSecret() string { return rand.Text() }

// hashOf returns the stored hash of a secret. It needs no salt, because the secret is random.
func hashOf(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// PutChallenge stores the state of a flow that a request began, and returns the secret with which a later request
// completes the flow. The state expires after the given time.
func (p People) PutChallenge(ctx context.Context, kind string, detail []byte,
	lasts time.Duration) (secret string, err error) {
	const put = `
		WITH old AS (DELETE FROM challenges WHERE expires_at < now())
		INSERT INTO challenges (hash, kind, detail, expires_at) VALUES ($1, $2, $3, now() + $4 * interval '1 second')`
	secret = NewSecret()
	_, err = p.db.ExecContext(ctx, put, hashOf(secret), kind, detail, lasts.Seconds())
	return secret, pg.Classify("store a challenge", err)
}

// TakeChallenge returns the state that belongs to a secret and removes it, so the flow can be completed only once. It
// returns db.ErrNotFound if there is no such flow or it has expired.
func (p People) TakeChallenge(ctx context.Context, kind, secret string) (detail []byte, err error) {
	const take = `DELETE FROM challenges WHERE hash = $1 AND kind = $2 AND expires_at > now() RETURNING detail`
	err = p.db.GetContext(ctx, &detail, take, hashOf(secret), kind)
	return detail, pg.Classify("consume a challenge", err)
}

// Challenge is like TakeChallenge, but leaves the flow open.
func (p People) Challenge(ctx context.Context, kind, secret string) (detail []byte, err error) {
	const read = `SELECT detail FROM challenges WHERE hash = $1 AND kind = $2 AND expires_at > now()`
	err = p.db.GetContext(ctx, &detail, read, hashOf(secret), kind)
	return detail, pg.Classify("read a challenge", err)
}

// Spend records the use of a one-time value, such as a challenge or a token's id, and remembers it for the given time.
// It returns db.ErrConflict if the value was used before.
func (p People) Spend(ctx context.Context, kind, name string, lasts time.Duration) error {
	const note = `
		WITH old AS (DELETE FROM challenges WHERE expires_at < now())
		INSERT INTO challenges (hash, kind, detail, expires_at) VALUES ($1, $2, '{}', now() + $3 * interval '1 second')
		ON CONFLICT (hash) DO NOTHING`
	result, err := p.db.ExecContext(ctx, note, hashOf(kind+" "+name), kind, lasts.Seconds())
	changed, err := pg.Affected("record the use of a one-time name", result, err)
	if err == nil && changed == 0 {
		err = db.ErrConflict
	}
	return err
}

// Now returns the current time by the database's clock, which all processes share.
func (p People) Now(ctx context.Context) (now time.Time, err error) {
	err = p.db.GetContext(ctx, &now, `SELECT now()`)
	return now, pg.Classify("read the time", err)
}

// failuresKept is how long a failed sign-in is remembered.
const failuresKept = 15 * time.Minute

// Attempt counts an attempt under a key before it is made, so that concurrent attempts are also counted. If the count
// exceeds the given limit, it returns how long attempts will be refused; 0 means that the attempt may be made. The
// caller must refund a successful attempt (Refund or ForgetFailures).
func (p People) Attempt(ctx context.Context, key string, most int) (wait time.Duration, err error) {
	const count = `
		INSERT INTO failed_sign_ins AS f (key, failures) VALUES ($1, 1)
		ON CONFLICT (key) DO UPDATE
		SET failures = CASE WHEN f.last_at < now() - $2 * interval '1 second' THEN 1 ELSE least(f.failures, $3) + 1 END,
			last_at = CASE WHEN f.failures > $3 AND f.last_at >= now() - $2 * interval '1 second' THEN f.last_at ELSE now() END
		RETURNING failures > $3 AS is_refused, extract(epoch
		FROM last_at + $2 * interval '1 second' - now())::float8 AS seconds`
	var found struct {
		IsRefused bool    `db:"is_refused"`
		Seconds   float64 `db:"seconds"`
	}
	if err := p.db.GetContext(ctx, &found, count, hashOf(key), failuresKept.Seconds(), most); err != nil {
		return 0, pg.Classify("count an attempt", err)
	}
	if !found.IsRefused {
		return 0, nil
	}
	return max(time.Second, time.Duration(found.Seconds*float64(time.Second))), nil
}

// Refund takes back the count of an attempt under a key if the attempt was not a guess.
func (p People) Refund(ctx context.Context, key string) error {
	_, err := p.db.ExecContext(ctx, `UPDATE failed_sign_ins SET failures = greatest(0, failures - 1)
		WHERE key = $1`, hashOf(key))
	return pg.Classify("refund an attempt", err)
}

// ForgetFailures resets the count of failed sign-ins under a key.
func (p People) ForgetFailures(ctx context.Context, key string) error {
	_, err := p.db.ExecContext(ctx, `DELETE FROM failed_sign_ins WHERE key = $1`, hashOf(key))
	return pg.Classify("forget failed sign-ins", err)
}
