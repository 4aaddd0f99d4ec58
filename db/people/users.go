package people

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// ErrNameTaken means that another account or project has the name, or that another account's name looks like it.
var ErrNameTaken = errors.New("the name is taken, or looks like another account's")

// ErrLastAdmin means that no account that may manage accounts would be left.
var ErrLastAdmin = errors.New("this is the last administrator")

// User is a row of users: an account.
type User struct {
	ID   uuid.UUID `db:"id"`
	Name string    `db:"name"`
	// PasswordHash is an Argon2id hash; nil means that the account has no password.
	PasswordHash *string `db:"password_hash"`
	// IsAdmin reports that the account may do everything, in all projects.
	IsAdmin bool `db:"is_admin"`
	// MustChangePassword reports that another person chose the password: the owner must choose a new one first.
	MustChangePassword bool `db:"must_change_password"`
	// NeedsPasskey reports that the password alone is not enough to sign in.
	NeedsPasskey bool `db:"needs_passkey"`
	// Subject is the issuer and subject of an OpenID Connect provider, or the id of an entry in an LDAP directory; nil
	// means a local account.
	Subject    *string    `db:"subject"`
	DisabledAt *time.Time `db:"disabled_at"`
	SignedInAt *time.Time `db:"signed_in_at"`
	CreatedAt  time.Time  `db:"created_at"`
	UpdatedAt  time.Time  `db:"updated_at"`
	// Passkeys is the number of the account's passkeys.
	Passkeys int `db:"passkeys"`
}

const readUsers = `
	SELECT u.id, u.name, u.password_hash, u.must_change_password, u.is_admin, u.needs_passkey, u.subject, u.disabled_at,
	u.signed_in_at, u.created_at,
		u.updated_at, (SELECT count(*) FROM passkeys WHERE user_id = u.id) AS passkeys
	FROM users u`

// User returns an account, or db.ErrNotFound.
func (p People) User(ctx context.Context, id uuid.UUID) (User, error) {
	return p.readUser(ctx, ` WHERE id = $1`, id)
}

// UserNamed returns the account with the given name, compared without regard to case, or db.ErrNotFound.
func (p People) UserNamed(ctx context.Context, name string) (User, error) {
	return p.readUser(ctx, ` WHERE lower(name) = lower($1)`, name)
}

// Resembling returns the account whose name equals the given one without regard to case, or looks like it;
// db.ErrNotFound means that the name is free.
func (p People) Resembling(ctx context.Context, name string) (User, error) {
	const where = ` WHERE lower(name) = lower($1) OR skeleton = $2 ORDER BY lower(name) = lower($1) DESC LIMIT 1`
	return p.readUser(ctx, where, name, db.NameSkeleton(name))
}

// UserOf returns the account with the given subject, or db.ErrNotFound.
func (p People) UserOf(ctx context.Context, subject string) (User, error) {
	return p.readUser(ctx, ` WHERE subject = $1`, subject)
}

func (p People) readUser(ctx context.Context, where string, arguments ...any) (User, error) {
	var user User
	if err := p.db.GetContext(ctx, &user, readUsers+where, arguments...); err != nil {
		// The user may be partly scanned, with some pointers set.
		return User{}, db.NotFound(KindUser, pg.Classify("read an account", err))
	}
	return user, nil
}

// Users returns a page of the accounts whose names contain a text, ordered by name, and how many there are in all.
func (p People) Users(ctx context.Context, nameContains string, page db.Page) (users []User, total int, err error) {
	const where = ` WHERE $1 = '' OR name ILIKE $1`
	name := pg.Containing(nameContains)
	if err := p.db.GetContext(ctx, &total, `SELECT count(*) FROM users`+where, name); err != nil {
		return nil, 0, pg.Classify("count the accounts", err)
	}
	err = p.db.SelectContext(ctx, &users, readUsers+where+` ORDER BY lower(name), id LIMIT $2 OFFSET $3`, name, page.Size,
		page.Offset())
	return users, total, pg.Classify("list the accounts", err)
}

// AddUser stores a new account. It returns ErrNameTaken if another account has the same name, or one that looks like
// it.
func (p People) AddUser(ctx context.Context, user User, memberships ...Membership) error {
	const insert = `
		INSERT INTO users (id, name, skeleton, password_hash, must_change_password, is_admin, subject)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`
	return p.change(ctx, "store an account", func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, insert, user.ID, user.Name, db.NameSkeleton(user.Name), user.PasswordHash,
			user.MustChangePassword, user.IsAdmin, user.Subject)
		if err != nil {
			return taken(pg.Classify("store an account", err))
		}
		for _, one := range memberships {
			if err := setMember(ctx, tx, one.ProjectID, user.ID, one.Role, one.IsGranted); err != nil {
				return err
			}
		}
		return nil
	})
}

func taken(err error) error {
	if errors.Is(err, db.ErrConflict) {
		return ErrNameTaken
	}
	return err
}

// HasAdmin reports whether any account may manage accounts.
func (p People) HasAdmin(ctx context.Context) (has bool, err error) {
	err = p.db.GetContext(ctx, &has, `SELECT EXISTS (SELECT FROM users WHERE is_admin AND disabled_at IS NULL)`)
	return has, pg.Classify("look for an administrator", err)
}

// SetPassword replaces the password of a signed-in account. It ends all the account's sessions other than except, and
// revokes all its tokens other than those in kept.
func (p People) SetPassword(ctx context.Context, id uuid.UUID, hash string, except uuid.UUID, kept []uuid.UUID) error {
	const set = `UPDATE users SET password_hash = $2, must_change_password = false, updated_at = now() WHERE id = $1`
	return p.change(ctx, "replace a password", func(tx *sqlx.Tx) error {
		result, err := tx.ExecContext(ctx, set, id, hash)
		changed, err := pg.Affected("replace a password", result, err)
		if err == nil && changed == 0 {
			err = &db.NotFoundError{Kind: KindUser}
		}
		if err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, `DELETE FROM sessions WHERE user_id = $1 AND id <> $2`, id, except); err != nil {
			return pg.Classify("end the sessions", err)
		}
		return revokeTokensOf(ctx, tx, id, kept)
	})
}

// Change is a change of an account; nil leaves a field as it is.
type Change struct {
	// PasswordHash is the hash of a new password; IsDisabled disables the account. Either ends its sessions, and a
	// new password also revokes its tokens.
	PasswordHash *string
	IsDisabled   *bool
	IsAdmin      *bool
}

// ChangeUser applies a change to an account, completely or not at all. It returns db.ErrNotFound if there is no such
// account, and ErrLastAdmin if no account that may manage accounts would be left.
func (p People) ChangeUser(ctx context.Context, id uuid.UUID, change Change) error {
	const set = `
		UPDATE users
		SET password_hash = coalesce($2, password_hash), is_admin = coalesce($3, is_admin),
			disabled_at = CASE WHEN $4 THEN coalesce(disabled_at, now()) WHEN NOT $4 THEN NULL ELSE disabled_at END,
			updated_at = now()
		WHERE id = $1`
	return p.change(ctx, "change an account", func(tx *sqlx.Tx) error {
		before, err := countAdmins(ctx, tx)
		if err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, set, id, change.PasswordHash, change.IsAdmin, change.IsDisabled)
		changed, err := pg.Affected("change an account", result, err)
		if err == nil && changed == 0 {
			err = &db.NotFoundError{Kind: KindUser}
		}
		if err != nil {
			return err
		}
		if change.PasswordHash != nil || change.IsDisabled != nil && *change.IsDisabled {
			if _, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE user_id = $1`, id); err != nil {
				return pg.Classify("end the sessions", err)
			}
		}
		if change.PasswordHash != nil {
			if err := revokeTokensOf(ctx, tx, id, nil); err != nil {
				return err
			}
		}
		after, err := countAdmins(ctx, tx)
		if err == nil && before > 0 && after == 0 {
			err = ErrLastAdmin
		}
		return err
	})
}

// countAdmins counts the accounts that may manage accounts and locks them until the transaction ends: otherwise two
// administrators could demote each other at the same time.
func countAdmins(ctx context.Context, tx *sqlx.Tx) (count int, err error) {
	var ids []uuid.UUID
	err = tx.SelectContext(ctx, &ids, `SELECT id FROM users WHERE is_admin AND disabled_at IS NULL ORDER BY id FOR UPDATE`)
	return len(ids), pg.Classify("lock the administrators", err)
}

// Grant applies to an account the groups that a provider or directory reports: they decide the account's name, whether
// it is an administrator, and its memberships. Memberships granted by people are kept.
func (p People) Grant(ctx context.Context, user User, memberships []Membership) error {
	return p.change(ctx, "apply the provider's groups", func(tx *sqlx.Tx) error {
		const set = `
			UPDATE users
			SET name = $2, skeleton = CASE WHEN name = $2 THEN skeleton ELSE $4 END, is_admin = $3, updated_at = now()
			WHERE id = $1 AND (name, is_admin) <> ($2, $3)`
		if _, err := tx.ExecContext(ctx, set, user.ID, user.Name, user.IsAdmin, db.NameSkeleton(user.Name)); err != nil {
			return taken(pg.Classify("adopt an account", err))
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM memberships WHERE user_id = $1 AND is_granted`, user.ID); err != nil {
			return pg.Classify("apply the provider's groups", err)
		}
		for _, one := range memberships {
			const add = `INSERT INTO memberships (project_id, user_id, role, is_granted) VALUES ($1, $2, $3, true)
				ON CONFLICT DO NOTHING`
			if _, err := tx.ExecContext(ctx, add, one.ProjectID, user.ID, one.Role); err != nil {
				return pg.Classify("apply the provider's groups", err)
			}
		}
		return nil
	})
}

// SetNeedsPasskey sets whether signing in requires a passkey. An account without a passkey can always use its
// password.
func (p People) SetNeedsPasskey(ctx context.Context, id uuid.UUID, needs bool) error {
	const set = `
		UPDATE users SET needs_passkey = $2, updated_at = now()
		WHERE id = $1 AND (NOT $2 OR EXISTS (SELECT FROM passkeys WHERE user_id = $1))`
	return p.changeRow(ctx, KindPasskey, "change how an account signs in", set, id, needs)
}
