package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/term"

	"wending/db"
	"wending/db/audit"
	"wending/db/people"
	"wending/db/project"
	"wending/jobs/password"
)

type userCommand struct {
	Add     addUserCommand     `cmd:"" help:"Make an account."`
	Passwd  passwdCommand      `cmd:"" help:"Give an account another password; it is signed out everywhere."`
	Disable disableUserCommand `cmd:"" help:"Keep an account from being used; it is signed out everywhere."`
}

type addUserCommand struct {
	Name    string `arg:"" help:"What is typed to sign in."`
	Role    string `default:"viewer" enum:"viewer,reviewer,editor,admin" help:"What it may do in the project."`
	Project string `default:"默认" help:"The project's name or id."`
	Admin   bool   `help:"It manages accounts and projects, and may do everything in them."`
}

type passwdCommand struct {
	Name string `arg:"" help:"The account's name."`
}

type disableUserCommand struct {
	Name string `arg:"" help:"The account's name."`
}

type tokenCommand struct {
	Create createTokenCommand `cmd:"" help:"Make a token for a project and print it."`
}

type createTokenCommand struct {
	Name    string `arg:"" help:"What the token is for."`
	Role    string `default:"editor" enum:"viewer,reviewer,editor,admin" help:"What it may do in the project; of admin also accounts and projects."`
	Project string `default:"默认" help:"The project's name or id."`
	Days    int    `default:"90" help:"How long it lasts; 0 is for good."`
}

type auditCommand struct {
	Verify verifyAuditCommand `cmd:"" help:"Read all entries; exits 1 where one was changed or removed."`
}

type verifyAuditCommand struct{}

// withPeople does work with the accounts of the configured database, or of the data folder's, also while the program runs.
func (s *Settings) withPeople(ctx context.Context, work func(*db.Store, people.People) error) error {
	if _, err := os.Stat(filepath.Join(s.DataDir, "postgres")); err != nil && s.DatabaseURL == "" {
		return fmt.Errorf("there is no installation in %s: set DATA_DIR or DATABASE_URL as for the program itself", s.DataDir)
	}
	return s.database(ctx, func(url string) error {
		if err := db.Migrate(ctx, url); err != nil {
			return err
		}
		store, err := db.Open(ctx, url, 2)
		if err != nil {
			return err
		}
		defer store.Close() //nolint:errcheck // nothing is pending
		return work(store, people.New(store))
	})
}

// record adds to the audit what was done on the command line.
func record(ctx context.Context, store *db.Store, action, id, name string, after map[string]any) error {
	actor := "command line"
	if who, err := user.Current(); err == nil {
		actor = who.Username
	}
	entry := audit.Entry{Actor: actor, Via: "command", Action: action, Object: audit.ObjectOf(action), ObjectID: id, ObjectName: name, Status: 200}
	if after != nil {
		text, err := json.Marshal(after)
		if err != nil {
			return err
		}
		entry.After = string(text)
	}
	_, err := audit.New(store).Add(ctx, entry)
	return err
}

// readPassword reads a password from a terminal, or the first line of stdin.
func readPassword(stderr io.Writer) (string, error) {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		_, _ = fmt.Fprint(stderr, "Password: ")
		typed, err := term.ReadPassword(int(os.Stdin.Fd()))
		_, _ = fmt.Fprintln(stderr)
		return string(typed), err
	}
	content, err := io.ReadAll(io.LimitReader(os.Stdin, 4096))
	line, _, _ := strings.Cut(string(content), "\n")
	return strings.TrimSuffix(line, "\r"), err
}

// newHash reads a password and hashes it.
func newHash(ctx context.Context, stderr io.Writer, name string) (string, error) {
	typed, err := readPassword(stderr)
	if err != nil {
		return "", err
	}
	if err := password.Check(typed, name); err != nil {
		return "", fmt.Errorf("%w: it needs at least %d characters and must not be one that many people use (it is read from the terminal or from stdin)", err, password.MinLength)
	}
	return password.Hash(ctx, typed)
}

func projectNamed(ctx context.Context, store people.People, text string) (people.Project, error) {
	find := store.ProjectNamed
	if id, err := uuid.Parse(text); err == nil {
		return store.Project(ctx, id)
	}
	if text == "默认" { // it may have another name by now
		return store.Project(ctx, project.Default)
	}
	found, err := find(ctx, text)
	if errors.Is(err, db.ErrNotFound) {
		return found, fmt.Errorf("there is no project %q", text)
	}
	return found, err
}

// Run makes an account.
func (c addUserCommand) Run(ctx context.Context, s *Settings, stdout io.Writer, stderr errorWriter) error {
	name := strings.TrimSpace(c.Name)
	if name == "" || len([]rune(name)) > 64 {
		return errors.New("a name has 1 to 64 characters")
	}
	hash, err := newHash(ctx, stderr, name)
	if err != nil {
		return err
	}
	return s.withPeople(ctx, func(store *db.Store, accounts people.People) error {
		place, err := projectNamed(ctx, accounts, c.Project)
		if err != nil {
			return err
		}
		account := people.User{ID: uuid.New(), Name: name, PasswordHash: &hash, IsAdmin: c.Admin}
		if err := accounts.AddUser(ctx, account, people.Membership{ProjectID: place.ID, Role: people.Role(c.Role)}); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(stdout, "%s is %s in %s\n", name, c.Role, place.Name)
		return record(ctx, store, "user.create", account.ID.String(), name, map[string]any{"is_admin": c.Admin, "project_id": place.ID, "role": c.Role})
	})
}

// named does work with the account of a name.
func (s *Settings) named(ctx context.Context, name string, work func(people.People, people.User) error, action string, after map[string]any) error {
	return s.withPeople(ctx, func(store *db.Store, accounts people.People) error {
		account, err := accounts.UserNamed(ctx, strings.TrimSpace(name))
		if errors.Is(err, db.ErrNotFound) {
			return fmt.Errorf("there is no account %q", name)
		}
		if err != nil {
			return err
		}
		if err := work(accounts, account); err != nil {
			return err
		}
		return record(ctx, store, action, account.ID.String(), account.Name, after)
	})
}

// Run gives an account another password.
func (c passwdCommand) Run(ctx context.Context, s *Settings, stdout io.Writer, stderr errorWriter) error {
	hash, err := newHash(ctx, stderr, c.Name)
	if err != nil {
		return err
	}
	return s.named(ctx, c.Name, func(accounts people.People, account people.User) error {
		if account.Subject != nil {
			return errors.New("the account is signed in by the OpenID Connect provider")
		}
		if err := accounts.ChangeUser(ctx, account.ID, people.Change{PasswordHash: &hash}); err != nil {
			return err
		}
		_, err := fmt.Fprintln(stdout, account.Name, "has another password and is signed out everywhere")
		return err
	}, "user.password", nil)
}

// Run disables an account.
func (c disableUserCommand) Run(ctx context.Context, s *Settings, stdout io.Writer) error {
	return s.named(ctx, c.Name, func(accounts people.People, account people.User) error {
		isDisabled := true
		err := accounts.ChangeUser(ctx, account.ID, people.Change{IsDisabled: &isDisabled})
		if errors.Is(err, people.ErrLastAdmin) {
			return fmt.Errorf("%s is the last administrator who can sign in, and cannot be disabled", account.Name)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(stdout, account.Name, "is disabled and signed out everywhere")
		return err
	}, "user.change", map[string]any{"is_disabled": true})
}

// Run makes a token and prints it.
func (c createTokenCommand) Run(ctx context.Context, s *Settings, stdout io.Writer) error {
	name := strings.TrimSpace(c.Name)
	if name == "" || len([]rune(name)) > 64 {
		return errors.New("a name has 1 to 64 characters")
	}
	if c.Days < 0 || c.Days > 3650 {
		return errors.New("--days is from 0, for good, to 3650")
	}
	return s.withPeople(ctx, func(store *db.Store, accounts people.People) error {
		place, err := projectNamed(ctx, accounts, c.Project)
		if err != nil {
			return err
		}
		token := people.Token{ID: uuid.New(), Name: name, ProjectID: place.ID, Role: people.Role(c.Role)}
		value, err := accounts.AddToken(ctx, token, time.Duration(c.Days)*24*time.Hour)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(stdout, value)
		return record(ctx, store, "token.create", token.ID.String(), name, map[string]any{"days": c.Days, "project_id": place.ID, "role": c.Role})
	})
}

// Run reads the audit from end to end.
func (verifyAuditCommand) Run(ctx context.Context, s *Settings, stdout io.Writer) error {
	return s.withPeople(ctx, func(store *db.Store, _ people.People) error {
		entries, err := audit.New(store).Verify(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "the audit is whole: %d entries\n", entries)
		return err
	})
}
