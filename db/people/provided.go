package people

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// Rights that were read from a provider or directory are valid for RightsLast: a session that has not been renewed by
// then ends. Renewal begins renewAhead before that.
const (
	RightsLast = time.Hour
	renewAhead = 10 * time.Minute
)

// Provided is the stored state of a session that began at a provider or with a directory.
type Provided struct {
	// SID is the provider's id of the session; nil means that it gave none.
	SID *string `db:"sid"`
	// Tokens are sealed; they are used to query the provider or directory again.
	Tokens []byte `db:"tokens"`
}

// Due is a session whose owner's rights must be read again.
type Due struct {
	SessionID uuid.UUID `db:"session_id"`
	UserID    uuid.UUID `db:"user_id"`
	// Subject is the account's subject, as in User.
	Subject string `db:"subject"`
	Tokens  []byte `db:"tokens"`
}

// leaseFor is how long one process has to query the provider about a session; after that, another process may do so.
const leaseFor = time.Minute

// TakeDue returns a session that was last used within the given time and whose owner's rights must be read again soon,
// or db.ErrNotFound. No other process gets the session for a minute.
func (p People) TakeDue(ctx context.Context, used time.Duration) (due Due, err error) {
	const take = `
		UPDATE provider_sessions p SET leased_until = now() + $3 * interval '1 second'
		FROM sessions s
		JOIN users u ON u.id = s.user_id
		WHERE s.id = p.session_id
		  AND p.session_id = (
			SELECT d.session_id
			FROM provider_sessions d
			JOIN sessions a ON a.id = d.session_id
			WHERE d.checked_at < now() - $2 * interval '1 second'
			  AND d.checked_at > now() - $1 * interval '1 second'
			  AND a.seen_at > now() - $4 * interval '1 second'
			  AND coalesce(d.leased_until < now(), true)
			ORDER BY d.checked_at
			LIMIT 1
			FOR UPDATE OF d SKIP LOCKED)
		RETURNING p.session_id, s.user_id, u.subject, p.tokens`
	err = p.db.GetContext(ctx, &due, take, RightsLast.Seconds(), (RightsLast - renewAhead).Seconds(), leaseFor.Seconds(),
		used.Seconds())
	return due, db.NotFound(KindSession, pg.Classify("look for a session to renew", err))
}

// Renewed records that the rights of a session's owner were read, and stores the tokens for the next query.
func (p People) Renewed(ctx context.Context, sessionID uuid.UUID, tokens []byte) error {
	const set = `UPDATE provider_sessions SET checked_at = now(), tokens = $2, leased_until = NULL WHERE session_id = $1`
	_, err := p.db.ExecContext(ctx, set, sessionID, tokens)
	return pg.Classify("renew a session", err)
}

// EndProvided ends the sessions that a provider reports as ended: the one with the id sid, or all sessions of the
// subject if sid is empty. If both are given, sessions of the subject that have no stored id end, too. EndProvided
// returns the owners of the ended sessions.
func (p People) EndProvided(ctx context.Context, issuer, subject, sid string) (owners []uuid.UUID, err error) {
	const end = `
		DELETE FROM sessions s
		USING provider_sessions p, users u
		WHERE p.session_id = s.id
		  AND u.id = s.user_id
		  AND CASE WHEN $2 = '' THEN starts_with(u.subject, $1 || ' ') ELSE u.subject = $1 || ' ' || $2 END
		  AND ($3 = '' OR p.sid = $3 OR p.sid IS NULL AND $2 <> '')
		RETURNING u.id`
	err = p.change(ctx, "end a provider's sessions", func(tx *sqlx.Tx) error {
		return pg.Classify("end a provider's sessions", tx.SelectContext(ctx, &owners, end, issuer, subject, sid))
	})
	return owners, err
}
