package people

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// How long a session lasts: IdleLimit after its last use, and SessionLimit in total.
const (
	IdleLimit    = 12 * time.Hour
	SessionLimit = 7 * 24 * time.Hour
)

// Session is a signed-in browser.
type Session struct {
	ID     uuid.UUID `db:"id"`
	UserID uuid.UUID `db:"user_id"`
	// Method is how its owner signed in: password (also the directory's), passkey, password+passkey, oidc
	// or setup.
	Method    string    `db:"method"`
	Address   string    `db:"address"`
	Browser   string    `db:"browser"`
	CreatedAt time.Time `db:"created_at"`
	SeenAt    time.Time `db:"seen_at"`
	// IsProven reports that the owner was present when the session began. A provider may sign a person in without asking.
	IsProven bool `db:"is_proven"`
	// Provided holds the data for querying the provider or directory again; nil means that the session depends on neither.
	Provided *Provided `db:"-"`
}

// isValid is the condition for sessions s that have not ended; $2 and $3 limit their idle time and their age, in
// seconds. Sessions of a provider's or directory's users must also have been renewed within RightsLast, which is an
// hour.
const isValid = ` s.seen_at > now() - $2 * interval '1 second' AND s.created_at > now() - $3 * interval '1 second'
	AND (EXISTS (SELECT FROM users o WHERE o.id = s.user_id AND o.subject IS NULL)
	OR EXISTS (SELECT FROM provider_sessions r WHERE r.session_id = s.id
	AND r.checked_at > now() - interval '1 hour'))`

// maxBrowser is the maximum number of characters that are stored of a browser's user agent.
const maxBrowser = 300

// SignIn begins a session and returns the secret that the browser keeps. The browser's previous session, if any,
// ends, so knowing the old secret does not give access to the new session.
func (p People) SignIn(ctx context.Context, session Session, before string) (secret string, err error) {
	const insert = `
		INSERT INTO sessions (hash, user_id, method, address, browser, is_proven)
		SELECT $1, id, $3, $4, left($5, $6), $7 FROM users WHERE id = $2 AND disabled_at IS NULL
		RETURNING id`
	const provide = `INSERT INTO provider_sessions (session_id, sid, tokens) VALUES ($1, $2, $3)`
	secret = NewSecret()
	err = p.change(ctx, "begin a session", func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE hash = $1`, hashOf(before)); err != nil {
			return pg.Classify("end the previous session", err)
		}
		var id uuid.UUID
		err := tx.GetContext(ctx, &id, insert, hashOf(secret), session.UserID, session.Method, session.Address,
			session.Browser, maxBrowser, session.IsProven)
		if err != nil { // the account may have been disabled a moment ago
			return db.NotFound(KindUser, pg.Classify("begin a session", err))
		}
		if session.Provided != nil {
			if _, err := tx.ExecContext(ctx, provide, id, session.Provided.SID, session.Provided.Tokens); err != nil {
				return pg.Classify("store a provider's session", err)
			}
		}
		_, err = tx.ExecContext(ctx, `UPDATE users SET signed_in_at = now() WHERE id = $1`, session.UserID)
		return pg.Classify("record a sign-in", err)
	})
	return secret, err
}

// FreshFor is how long after signing in people may change their sign-in settings.
const FreshFor = 15 * time.Minute

// Signed is a session together with its owner.
type Signed struct {
	Session
	User User
	// IsFresh reports that the session is proven (see IsProven) and began at most FreshFor ago.
	IsFresh bool
}

// SessionOf returns the session that belongs to a browser's secret, and its owner, or db.ErrNotFound. It records
// the time of use, at most once a minute.
func (p People) SessionOf(ctx context.Context, secret string) (signed Signed, err error) {
	const read = `
		SELECT s.id, s.user_id, s.method, s.address, s.browser, s.created_at, s.seen_at, s.is_proven,
			s.is_proven AND s.created_at > now() - $4 * interval '1 second' AS is_fresh
		FROM sessions s
		JOIN users u ON u.id = s.user_id AND u.disabled_at IS NULL
		WHERE s.hash = $1 AND` + isValid
	const touch = `
		UPDATE sessions SET seen_at = now()
		WHERE id = $1 AND seen_at < now() - interval '1 minute'
		  AND seen_at > now() - $2 * interval '1 second' -- a session that has ended since it was read stays ended`
	var found struct {
		Session
		IsFresh bool `db:"is_fresh"`
	}
	if err := p.db.GetContext(ctx, &found, read, hashOf(secret), IdleLimit.Seconds(), SessionLimit.Seconds(),
		FreshFor.Seconds()); err != nil {
		return signed, db.NotFound(KindSession, pg.Classify("read a session", err))
	}
	signed.Session, signed.IsFresh = found.Session, found.IsFresh
	if signed.User, err = p.User(ctx, signed.UserID); err != nil {
		return signed, err
	}
	_, err = p.db.ExecContext(ctx, touch, signed.ID, IdleLimit.Seconds())
	return signed, pg.Classify("record a session's use", err)
}

// Sessions returns the sessions of an account that have not ended, the most recently used first.
func (p People) Sessions(ctx context.Context, userID uuid.UUID) (sessions []Session, err error) {
	const list = `
		SELECT s.id, s.user_id, s.method, s.address, s.browser, s.created_at, s.seen_at, s.is_proven
		FROM sessions s
		WHERE s.user_id = $1 AND` + isValid + `
		ORDER BY s.seen_at DESC, s.id`
	err = p.db.SelectContext(ctx, &sessions, list, userID, IdleLimit.Seconds(), SessionLimit.Seconds())
	return sessions, pg.Classify("list the sessions", err)
}

// EndSession ends a session of an account. It returns db.ErrNotFound if there is no such session.
func (p People) EndSession(ctx context.Context, userID, id uuid.UUID) error {
	return p.changeRow(ctx, KindSession, "end a session", `DELETE FROM sessions WHERE user_id = $1 AND id = $2`,
		userID, id)
}

// EndSessions ends all sessions of an account, and revokes its tokens except the ones in kept.
func (p People) EndSessions(ctx context.Context, userID uuid.UUID, kept []uuid.UUID) error {
	return p.change(ctx, "end the sessions", func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE user_id = $1`, userID); err != nil {
			return pg.Classify("end the sessions", err)
		}
		return revokeTokensOf(ctx, tx, userID, kept)
	})
}

// EndAllSessions ends the sessions of all accounts, and all unfinished sign-in flows.
func (p People) EndAllSessions(ctx context.Context) error {
	return p.change(ctx, "end all sessions", func(tx *sqlx.Tx) error {
		const end = `WITH begun AS (DELETE FROM challenges) DELETE FROM sessions`
		_, err := tx.ExecContext(ctx, end)
		return pg.Classify("end all sessions", err)
	})
}

// RemoveEnded removes sessions that have ended, and other expired rows.
func (p People) RemoveEnded(ctx context.Context) error {
	const remove = `
		WITH old AS (DELETE FROM challenges WHERE expires_at < now()), 
			unread AS (DELETE FROM sessions s USING provider_sessions p WHERE p.session_id = s.id
			AND p.checked_at < now() - interval '1 day'),
			past AS (DELETE FROM failed_sign_ins WHERE last_at < now() - $3 * interval '1 second')
		DELETE FROM sessions WHERE seen_at < now() - $1 * interval '1 second'
		OR created_at < now() - $2 * interval '1 second'`
	_, err := p.db.ExecContext(ctx, remove, IdleLimit.Seconds(), SessionLimit.Seconds(), failuresKept.Seconds())
	return pg.Classify("remove ended sessions", err)
}
