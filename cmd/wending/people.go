package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/term"

	"wending/db"
	"wending/db/people"
	"wending/jobs/export"
	"wending/jobs/identity"
	"wending/jobs/tasks"
)

type userCommand struct {
	Add     addUserCommand     `cmd:"" help:"Create an account."`
	Passwd  passwdCommand      `cmd:"" help:"Change an account's password; the account is signed out everywhere."`
	Disable disableUserCommand `cmd:"" help:"Disable an account; it is signed out everywhere."`
}

type addUserCommand struct {
	Name       string `arg:"" help:"User name for signing in."`
	Role       string `default:"viewer" enum:"viewer,reviewer,editor,admin" help:"Role in the project."`
	Project    string `default:"默认" help:"The project's name or id."`
	Admin      bool   `help:"Make the account a system administrator, who manages accounts and projects and has all rights in them."`
	MustChange bool   `name:"must-change-password" default:"true" negatable:"" help:"Require a new password at the first sign-in."`
}

type passwdCommand struct {
	Name string `arg:"" help:"The account's name."`
}

type disableUserCommand struct {
	Name string `arg:"" help:"The account's name."`
}

type tokenCommand struct {
	Create createTokenCommand `cmd:"" help:"Create a token for a project or for the installation, and print it."`
}

type createTokenCommand struct {
	Name         string `arg:"" help:"Name of the token."`
	Role         string `default:"" enum:",viewer,reviewer,editor,admin" help:"Role in the project (the token has no rights elsewhere); editor if not set."`
	Project      string `default:"默认" help:"Name or id of the project; with --installation, the default project of requests that name none."`
	Days         int    `default:"90" help:"Days until it expires; 0 means never."`
	Installation bool   `help:"Give it all rights: in all projects, and over accounts, projects and the audit log."`
}

type auditCommand struct {
	Verify verifyAuditCommand `cmd:"" help:"Read all entries; exits with 1 if one was changed or removed."`
	Seal   sealAuditCommand   `cmd:"" help:"Seal the audit log in its current state, after a failed seal has been investigated; this adds an entry."`
}

type verifyAuditCommand struct {
	Seen []string `placeholder:"SEQ:HASH" help:"An entry known from the log or an export; exits with 1 unless it exists with that hash. May be repeated."`
}

type sealAuditCommand struct{}

// withPeople calls the function work with the accounts in the configured database or, without one, in the data folder's
// database, even while the program runs.
func (s *Settings) withPeople(ctx context.Context, work func(*db.Store, people.People) error) error {
	if _, err := os.Stat(filepath.Join(s.DataDir, "postgres")); err != nil && s.DatabaseURL == "" {
		return fmt.Errorf("there is no installation in %s: set DATA_DIR or DATABASE_URL as for the server", s.DataDir)
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

// auditLog opens the audit log of a store, with the key that seals it.
func (s *Settings) auditLog(ctx context.Context, store *db.Store) (people.AuditLog, error) {
	if _, err := s.keptKeys(); s.SecretKey == "" && errors.Is(err, os.ErrNotExist) && s.DatabaseURL != "" {
		return people.AuditLog{}, errors.New("set SECRET_KEY or DATA_DIR as for the server: its key seals the audit log")
	}
	keys, err := s.secretKeys()
	if err != nil {
		return people.AuditLog{}, err
	}
	sealer, err := tasks.NewSealer(ctx, store, keys)
	return people.NewAuditLog(store, sealer), err
}

// record calls work, and records in the audit log that it was done on the command line. It stores the intent before it
// calls work.
func (s *Settings) record(ctx context.Context, store *db.Store, entry people.AuditEntry, after map[string]any,
	work func() error) error {
	log, err := s.auditLog(ctx, store)
	if err != nil {
		return err
	}
	unsealed := (*people.AuditSealError)(nil)
	if err := log.Seal(ctx); err != nil && !errors.As(err, &unsealed) {
		return err
	}
	entry.Actor, entry.Via = commander(), people.ViaCommand
	entry.Object, entry.Status = people.ObjectOfAction(entry.Action), 200
	if after != nil {
		text, err := json.Marshal(after)
		if err != nil {
			return err
		}
		entry.After = string(text)
	}
	begun, err := log.Begin(ctx, entry)
	if err != nil {
		return err
	}
	if err := work(); err != nil {
		if errors.Is(err, db.ErrUnavailable) || ctx.Err() != nil {
			return err // the work may have been done: the entry will record an unknown outcome
		}
		return errors.Join(err, log.Drop(ctx, begun))
	}
	_, err = log.Complete(ctx, begun, entry)
	return err
}

// commander returns the name of the operating system's account that runs the command.
func commander() string {
	if who, err := user.Current(); err == nil {
		return who.Username
	}
	return "command line"
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

// explained adds an explanation for the command line to an error about an account.
func explained(err error) error {
	var wrong *identity.FieldError
	if errors.As(err, &wrong) && wrong.Field == "password" {
		return fmt.Errorf(
			"%w: use at least %d characters, and none of the common passwords (it is read from the terminal or from stdin)",
			wrong.Err, identity.MinPassword)
	}
	if errors.As(err, &wrong) {
		return wrong.Err
	}
	return err
}

func projectNamed(ctx context.Context, store people.People, text string) (people.Project, error) {
	if id, err := uuid.Parse(text); err == nil {
		return store.Project(ctx, id)
	}
	if text == "默认" { // the default project, even if it has been renamed
		return store.Project(ctx, db.DefaultProject)
	}
	found, err := store.ProjectNamed(ctx, text)
	if errors.Is(err, db.ErrNotFound) {
		return found, fmt.Errorf("no project named %q", text)
	}
	return found, err
}

// Run creates an account.
func (c addUserCommand) Run(ctx context.Context, s *Settings, stdout io.Writer, stderr errorWriter) error {
	typed, err := readPassword(stderr)
	if err != nil {
		return err
	}
	return s.withPeople(ctx, func(store *db.Store, accounts people.People) error {
		place, err := projectNamed(ctx, accounts, c.Project)
		if err != nil {
			return err
		}
		made := identity.New(store)
		draft, err := made.DraftUser(ctx, identity.NewUser{
			Name: c.Name, Password: typed, IsAdmin: c.Admin, MustChange: c.MustChange, ProjectID: place.ID,
			Role: people.Role(c.Role),
		})
		if err != nil {
			return explained(err)
		}
		entry := people.AuditEntry{Action: "user.create", ObjectID: draft.ID.String(), ObjectName: draft.Name}
		after := map[string]any{"is_admin": c.Admin, "must_change_password": c.MustChange, "project_id": place.ID,
			"role": c.Role}
		err = s.record(ctx, store, entry, after, func() error {
			_, err := made.AddUser(ctx, draft)
			return err
		})
		if err == nil {
			_, _ = fmt.Fprintf(stdout, "%s is %s in %s\n", draft.Name, c.Role, place.Name)
		}
		return err
	})
}

// named calls the function work with the account of the given name.
func (s *Settings) named(ctx context.Context, name string, work func(identity.Service, people.User) error,
	action string, after map[string]any) error {
	return s.withPeople(ctx, func(store *db.Store, accounts people.People) error {
		account, err := accounts.UserNamed(ctx, strings.TrimSpace(name))
		if errors.Is(err, db.ErrNotFound) {
			return fmt.Errorf("no account named %q", name)
		}
		if err != nil {
			return err
		}
		entry := people.AuditEntry{Action: action, ObjectID: account.ID.String(), ObjectName: account.Name}
		return s.record(ctx, store, entry, after, func() error { return work(identity.New(store), account) })
	})
}

// Run changes the password of an account.
func (c passwdCommand) Run(ctx context.Context, s *Settings, stdout io.Writer, stderr errorWriter) error {
	typed, err := readPassword(stderr)
	if err != nil {
		return err
	}
	return s.named(ctx, c.Name, func(accounts identity.Service, account people.User) error {
		if err := accounts.ChangeUser(ctx, account, identity.Change{Password: &typed}); err != nil {
			return explained(err)
		}
		_, err := fmt.Fprintln(stdout, account.Name, "has a new password and is signed out everywhere")
		return err
	}, "user.password", nil)
}

// Run disables an account.
func (c disableUserCommand) Run(ctx context.Context, s *Settings, stdout io.Writer) error {
	return s.named(ctx, c.Name, func(accounts identity.Service, account people.User) error {
		isDisabled := true
		err := accounts.ChangeUser(ctx, account, identity.Change{IsDisabled: &isDisabled})
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

// Run creates a token and prints it.
func (c createTokenCommand) Run(ctx context.Context, s *Settings, stdout io.Writer) error {
	if c.Installation && c.Role != "" {
		return errors.New("--installation and --role cannot be combined: a token for the installation has all rights")
	}
	if c.Days < 0 || c.Days > identity.MaxDays {
		return fmt.Errorf("--days must be 0 (never expires) to %d", identity.MaxDays)
	}
	return s.withPeople(ctx, func(store *db.Store, accounts people.People) error {
		place, err := projectNamed(ctx, accounts, c.Project)
		if err != nil {
			return err
		}
		n := identity.NewToken{
			Name: c.Name, ProjectID: place.ID, Role: people.Role(cmp.Or(c.Role, string(people.Editor))),
			Reach: people.ReachProject, Days: c.Days,
		}
		if c.Installation {
			n.Role, n.Reach = people.Admin, people.ReachInstallation
		}
		made := identity.New(store)
		draft, err := made.DraftToken(identity.Maker{IsOperator: true}, n)
		if err != nil {
			return explained(err)
		}
		value, entry := "", people.AuditEntry{Action: "token.create", ObjectID: draft.ID.String(), ObjectName: draft.Name}
		after := map[string]any{"days": c.Days, "project_id": place.ID, "role": n.Role, "reach": n.Reach}
		err = s.record(ctx, store, entry, after, func() (err error) {
			_, value, err = made.AddToken(ctx, draft)
			return err
		})
		if err == nil {
			_, _ = fmt.Fprintln(stdout, value)
		}
		return err
	})
}

// Run verifies the whole audit log.
func (c verifyAuditCommand) Run(ctx context.Context, s *Settings, stdout io.Writer) error {
	var known []people.KnownEnd
	for _, text := range c.Seen {
		number, hash, _ := strings.Cut(text, ":")
		seq, err := strconv.ParseInt(number, 10, 64)
		sum, malformed := hex.DecodeString(hash)
		if err != nil || malformed != nil || seq < 1 || len(sum) != sha256.Size {
			return fmt.Errorf("--seen %s: write SEQ:HASH as in the log and the CSV, such as 12:9f2c… (64 digits)", text)
		}
		known = append(known, people.KnownEnd{Seq: seq, Hash: sum})
	}
	return s.withPeople(ctx, func(store *db.Store, _ people.People) error {
		log, err := s.auditLog(ctx, store)
		if err != nil {
			return err
		}
		found, err := log.Verify(ctx, known...)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(stdout, "the audit log is complete: %d entries, the last is %d:%x\n", found.Entries,
			found.Last.Seq, found.Last.Hash)
		for _, one := range found.Seals {
			_, _ = fmt.Fprintf(stdout,
				"entry %d, by %s at %s: the log was sealed in its state at that time; the seal proves nothing about earlier "+
					"entries\n",
				one.Seq, one.Actor, export.BeijingTime(one.At))
		}
		if found.RemovedTo > 0 {
			_, _ = fmt.Fprintf(stdout, "entries up to %d were removed by age (AUDIT_RETENTION_DAYS)\n", found.RemovedTo)
		}
		for _, one := range known {
			says := "exists and is unchanged"
			if one.Seq <= found.RemovedTo {
				says = "was removed by age"
			}
			_, _ = fmt.Fprintf(stdout, "entry %d %s\n", one.Seq, says)
		}
		return nil
	})
}

// Run seals the audit log as it is now.
func (sealAuditCommand) Run(ctx context.Context, s *Settings, stdout io.Writer) error {
	return s.withPeople(ctx, func(store *db.Store, _ people.People) error {
		log, err := s.auditLog(ctx, store)
		if err != nil {
			return err
		}
		if err := log.SealAgain(ctx, people.AuditEntry{Actor: commander(), Via: "command"}); err != nil {
			return err
		}
		_, err = fmt.Fprintln(stdout, "the audit log is sealed in its current state; the last entry records this")
		return err
	})
}
