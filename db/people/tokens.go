package people

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// TokenPrefix is the prefix of every token; scanners for leaked secrets recognise tokens by it.
const TokenPrefix = "wnd_"

// Reach is where a token's role applies.
type Reach string

// The reaches. ReachAccounts is the reach of administrators' tokens that were created before ReachInstallation
// existed: they act in their project, and also manage accounts and projects.
const (
	ReachProject      Reach = "project"
	ReachAccounts     Reach = "accounts"
	ReachInstallation Reach = "installation"
)

// Token lets a program use the API.
type Token struct {
	ID   uuid.UUID `db:"id"`
	Name string    `db:"name"`
	// Hint is the token's last characters.
	Hint        string    `db:"hint"`
	ProjectID   uuid.UUID `db:"project_id"`
	ProjectName string    `db:"project_name"`
	Role        Role      `db:"role"`
	// Reach is where the role applies; with ReachInstallation, ProjectID is the default project of its
	// requests.
	Reach Reach `db:"reach"`
	// UserID is the account that created the token and whose rights limit it; nil means the command line.
	UserID    *uuid.UUID `db:"user_id"`
	UserName  *string    `db:"user_name"`
	ExpiresAt *time.Time `db:"expires_at"`
	UsedAt    *time.Time `db:"used_at"`
	RevokedAt *time.Time `db:"revoked_at"`
	CreatedAt time.Time  `db:"created_at"`
	// ParentID is the token that created this one, which ends together with its parent; nil means that a person created
	// it.
	ParentID *uuid.UUID `db:"parent_id"`
	// IsExpired is determined by the database's clock.
	IsExpired bool `db:"is_expired"`
	// MayManage reports that an administrator's token manages accounts and projects.
	MayManage bool `db:"may_manage"`
}

const readTokens = `
	SELECT t.id, t.name, t.hint, t.project_id, p.name AS project_name, t.role, t.reach, t.user_id, t.parent_id,
	u.name AS user_name, t.expires_at, t.used_at, t.revoked_at,
		t.created_at, coalesce(t.expires_at <= now(), false) AS is_expired, t.reach <> 'project'
		AND coalesce(u.is_admin, true) AS may_manage
	FROM tokens t
	JOIN projects p ON p.id = t.project_id
	LEFT JOIN users u ON u.id = t.user_id`

// AddToken stores a new token and returns its value, which cannot be read again. The token is valid for the given
// duration (zero: without limit), but no longer than its parent token. AddToken returns a db.ProjectFullError if the
// project has reached the cap on tokens.
func (p People) AddToken(ctx context.Context, token Token, lasts time.Duration) (value string, err error) {
	const insert = `
		INSERT INTO tokens (id, name, hash, hint, project_id, role, user_id, parent_id, reach, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $9, $10,
			least(CASE WHEN $8 > 0 THEN now() + $8 * interval '1 second' END, (SELECT expires_at FROM tokens WHERE id = $9)))`
	value = TokenPrefix + NewSecret()
	err = p.db.InTx(ctx, "store a token", func(tx *sqlx.Tx) error {
		if err := db.TokenCap.Admit(ctx, tx, token.ProjectID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, insert, token.ID, token.Name, hashOf(value), value[len(value)-4:], token.ProjectID,
			token.Role, token.UserID,
			lasts.Seconds(), token.ParentID, cmp.Or(token.Reach, ReachProject))
		return pg.Classify("store a token", err)
	})
	return value, err
}

// Token returns a token, or db.ErrNotFound.
func (p People) Token(ctx context.Context, id uuid.UUID) (token Token, err error) {
	err = p.db.GetContext(ctx, &token, readTokens+` WHERE t.id = $1`, id)
	return token, db.NotFound(KindToken, pg.Classify("read a token", err))
}

// TokenOf returns the token with the given value, its role limited by its owner's rights, or db.ErrNotFound. It records
// the time of use, at most once a minute.
func (p People) TokenOf(ctx context.Context, value string) (token Token, err error) {
	const read = readTokens + `
		WHERE t.hash = $1 AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())
		  AND (t.user_id IS NULL OR u.disabled_at IS NULL)`
	const touch = `UPDATE tokens SET used_at = now() WHERE id = $1
		AND coalesce(used_at < now() - interval '1 minute', true)`
	if err := p.db.GetContext(ctx, &token, read, hashOf(value)); err != nil {
		return token, db.NotFound(KindToken, pg.Classify("read a token", err))
	}
	if token.UserID != nil {
		role, err := p.RoleIn(ctx, *token.UserID, token.ProjectID)
		if err != nil {
			return token, err
		}
		if token.Role = Least(token.Role, role); !token.Role.IsKnown() { // its creator has left the project
			return token, &db.NotFoundError{Kind: KindToken}
		}
	}
	_, err = p.db.ExecContext(ctx, touch, token.ID)
	return token, pg.Classify("record a token's use", err)
}

// RoleIn returns an account's role in a project; empty if it is not a member.
func (p People) RoleIn(ctx context.Context, userID, projectID uuid.UUID) (role Role, err error) {
	const read = `
		SELECT CASE WHEN u.is_admin THEN 'admin' ELSE coalesce(m.role, '') END
		FROM users u
		LEFT JOIN memberships m ON m.user_id = u.id AND m.project_id = $2
		WHERE u.id = $1 AND u.disabled_at IS NULL`
	err = p.db.GetContext(ctx, &role, read, userID, projectID)
	if pg.IsNoRows(err) {
		return "", nil
	}
	return role, pg.Classify("read a role", err)
}

// Tokens returns a page of the tokens of a project, newest first, and how many there are in all; if userID is not
// nil, only the tokens of that account.
func (p People) Tokens(ctx context.Context, projectID uuid.UUID, userID *uuid.UUID,
	page db.Page) (tokens []Token, total int, err error) {
	const where = ` WHERE project_id = $1 AND ($2::uuid IS NULL OR user_id = $2)`
	if err := p.db.GetContext(ctx, &total, `SELECT count(*) FROM tokens`+where, projectID, userID); err != nil {
		return nil, 0, pg.Classify("count the tokens", err)
	}
	const list = readTokens + ` WHERE t.project_id = $1 AND ($2::uuid IS NULL OR t.user_id = $2)
		ORDER BY t.created_at DESC, t.id LIMIT $3 OFFSET $4`
	err = p.db.SelectContext(ctx, &tokens, list, projectID, userID, page.Size, page.Offset())
	return tokens, total, pg.Classify("list the tokens", err)
}

// TokensOf returns the usable tokens of an account in all projects, ordered by name.
func (p People) TokensOf(ctx context.Context, userID uuid.UUID) (tokens []Token, err error) {
	const list = readTokens + `
		WHERE t.user_id = $1 AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())
		ORDER BY lower(t.name), t.id`
	err = p.db.SelectContext(ctx, &tokens, list, userID)
	return tokens, pg.Classify("list the tokens of an account", err)
}

// revokeTokensOf revokes the tokens of an account, and the tokens created with them, except those that the owner
// keeps.
func revokeTokensOf(ctx context.Context, tx *sqlx.Tx, userID uuid.UUID, kept []uuid.UUID) error {
	const revoke = `
		WITH RECURSIVE family AS (
			SELECT id FROM tokens WHERE user_id = $1 AND NOT id::text = ANY(string_to_array($2, ','))
			UNION
			SELECT t.id FROM tokens t JOIN family f ON t.parent_id = f.id)
		UPDATE tokens SET revoked_at = now() WHERE id IN (SELECT id FROM family) AND revoked_at IS NULL`
	ids := make([]string, len(kept))
	for n, id := range kept {
		ids[n] = id.String()
	}
	_, err := tx.ExecContext(ctx, revoke, userID, strings.Join(ids, ","))
	return pg.Classify("revoke the tokens of an account", err)
}

// RevokeToken revokes a token, and the tokens created with it, with immediate effect. It returns db.ErrNotFound if
// there is no such token.
func (p People) RevokeToken(ctx context.Context, id uuid.UUID) error {
	const revoke = `
		WITH RECURSIVE family AS (
			SELECT id FROM tokens WHERE id = $1
			UNION
			SELECT t.id FROM tokens t JOIN family f ON t.parent_id = f.id)
		UPDATE tokens SET revoked_at = coalesce(revoked_at, now()) WHERE id IN (SELECT id FROM family)`
	return p.changeRow(ctx, KindToken, "revoke a token", revoke, id)
}
