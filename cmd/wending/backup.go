package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"wending/db"
	"wending/db/people"
	"wending/db/pg/embedded"
	"wending/db/upkeep"
	"wending/jobs/blob"
	"wending/jobs/courier"
)

type backupCommand struct {
	File  string `arg:"" placeholder:"FILE" help:"The .tar.gz file to write; it must not exist yet."`
	Check bool   `help:"Check that FILE is a complete, undamaged backup, instead of writing one."`
}

type restoreCommand struct {
	File string `arg:"" placeholder:"FILE" help:"A file written by 'backup'."`
}

// The names of the folders in a backup.
const (
	uploadsName = "uploads"
	assetsName  = "assets"
)

// database calls the function work with the address of the database: the configured one, the running program's, or the
// address of a server started for this call.
func (s *Settings) database(ctx context.Context, work func(url string) error) error {
	if s.DatabaseURL != "" {
		return work(s.directURL(s.DatabaseURL))
	}
	folder := filepath.Join(s.DataDir, "postgres")
	lock, err := embedded.LockDataDir(s.DataDir)
	if errors.Is(err, embedded.ErrDataDirInUse) {
		url, err := embedded.RunningURL(folder)
		if err != nil {
			return err
		}
		return work(url)
	}
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the process
	server, err := embedded.StartPostgres(ctx, folder)
	if err != nil {
		return err
	}
	defer server.Stop()
	return work(server.URL())
}

// Run writes the database, uploads and key to one file, even while the program runs, or checks an existing backup.
func (c backupCommand) Run(ctx context.Context, s *Settings, stdout io.Writer, stderr errorWriter) (err error) {
	if c.Check {
		return checkBackup(ctx, c.File, stdout)
	}
	if _, err := os.Stat(c.File); err == nil {
		return fmt.Errorf("%s already exists", c.File)
	}
	if _, err := os.Stat(s.DataDir); err != nil {
		return fmt.Errorf("DATA_DIR: %w", err)
	}
	aside, err := os.CreateTemp(filepath.Dir(c.File), ".wending-backup-*") // mode 0600, because it contains the key
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(aside.Name())
		}
	}()
	content, err := s.backup(func(part string, bytes int64) {
		_, _ = fmt.Fprintf(stderr, "%s: %d MiB so far\n", part, bytes>>20)
	}, 5*time.Second).Write(ctx, aside)
	if err != nil {
		return err
	}
	size, err := aside.Seek(0, io.SeekCurrent)
	if err = errors.Join(err, aside.Sync(), aside.Close()); err != nil {
		return err
	}
	if err := os.Rename(aside.Name(), c.File); err != nil {
		return err
	}
	if err := s.database(ctx, func(url string) error { return recordBackup(ctx, url, size) }); err != nil {
		return fmt.Errorf("%s is complete, but not recorded as the last backup: %w", c.File, err)
	}
	_, err = fmt.Fprintf(stdout, "%s: the database and %d files\n", c.File, content.Files)
	if err == nil && s.folders()[assetsName] == "" {
		_, err = fmt.Fprintln(stdout, "not included: the files that agents produced, which are stored at BLOB_URL")
	}
	if err == nil && !content.HasKey {
		_, err = fmt.Fprintln(stdout, "not included: SECRET_KEY; keep it elsewhere, or the secrets can never be decrypted")
	}
	return err
}

// backup describes the installation's backups: the database, the folders and the key file. progress is called while a
// backup is made; every is the minimum time between two calls.
func (s *Settings) backup(progress func(part string, bytes int64), every time.Duration) courier.Backup {
	keyFile := s.keyFile()
	if s.SecretKey != "" {
		keyFile = ""
	}
	return courier.Backup{
		Version: buildVersion(), KeyFile: keyFile, Folders: s.folders(), TempDir: s.DataDir,
		Progress: progress, ProgressEvery: every,
		Dump: func(ctx context.Context, w io.Writer) error {
			return s.database(ctx, func(url string) error { return upkeep.Dump(ctx, url, w) })
		},
	}
}

// checkBackup reads a whole backup, including the database in it, and prints what it contains.
func checkBackup(ctx context.Context, path string, stdout io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	content, err := courier.CheckBackup(ctx, file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, err = fmt.Fprintf(stdout, "%s: complete, with the database and %d files, as of %s (version %s)\n", path,
		content.Files, content.MadeAt.Format(time.RFC3339), content.Version)
	return err
}

// recordBackup records in the database at url that a backup of the given size has finished.
func recordBackup(ctx context.Context, url string, bytes int64) error {
	store, err := db.Open(ctx, url, 1)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing is pending
	return upkeep.NewMonitor(store).BackedUp(ctx, bytes, false)
}

// backupPlan returns the schedule of backups, as a function that returns the next planned time after a given one, and
// the store that keeps the backups. next is nil if no backups are planned.
func (s *Settings) backupPlan() (next func(time.Time) time.Time, place blob.Store, err error) {
	if s.BackupCron == "" {
		return nil, nil, nil
	}
	if next, err = courier.BackupTimes(s.BackupCron); err != nil {
		return nil, nil, fmt.Errorf("BACKUP_CRON is %q: %w", s.BackupCron, err)
	}
	if s.BackupTo == "" {
		return nil, nil, errors.New("BACKUP_CRON needs BACKUP_TO, the folder or bucket that keeps the backups")
	}
	address := s.BackupTo
	if !strings.Contains(address, "://") {
		if address, err = filepath.Abs(address); err != nil {
			return nil, nil, fmt.Errorf("BACKUP_TO: %w", err)
		}
		address = (&url.URL{Scheme: "file", Path: address}).String()
	}
	if u, err := url.Parse(address); err == nil && u.Scheme == "file" {
		for _, folder := range s.folders() {
			folder, err := filepath.Abs(folder)
			inside, wrong := filepath.Rel(folder, u.Path)
			if err == nil && wrong == nil && filepath.IsLocal(inside) {
				return nil, nil, fmt.Errorf("BACKUP_TO is inside %s, so backups would contain earlier ones", folder)
			}
		}
	}
	place, err = blob.Open(address, blob.Credentials{AccessKeyID: s.S3KeyID, SecretAccessKey: s.S3Secret})
	if err != nil {
		return nil, nil, fmt.Errorf("BACKUP_TO: %w", err)
	}
	return next, place, nil
}

// nextBackup returns the schedule of backups, as in backupPlan.
func (s *Settings) nextBackup() func(time.Time) time.Time {
	next, _, _ := s.backupPlan() // an error has been reported at the start
	return next
}

// backUpEvery is how often a process checks whether a scheduled backup is due.
const backUpEvery = 20 * time.Second

// backUp makes the scheduled backups until ctx ends.
func (p *program) backUp(ctx context.Context) {
	next, place, err := p.settings.backupPlan()
	if err != nil || next == nil { // an error has been reported at the start
		return
	}
	backup := p.settings.backup(func(part string, bytes int64) {
		p.log.InfoContext(ctx, "backup in progress", "part", part, "bytes", bytes)
	}, time.Minute)
	backup.Dump = func(ctx context.Context, w io.Writer) error { return upkeep.Dump(ctx, p.directURL, w) }
	keeper := courier.BackupKeeper{Store: p.store, Backup: backup, Place: place, Keep: p.settings.BackupKeep, Next: next,
		Log: p.log}
	tick := time.NewTicker(backUpEvery)
	defer tick.Stop()
	for {
		if err := keeper.Round(ctx); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "scheduled backups not looked at, will retry", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// folders maps the names of the folders in a backup to their paths on this machine.
func (s *Settings) folders() map[string]string {
	folders := map[string]string{uploadsName: filepath.Join(s.DataDir, "uploads")}
	if s.BlobURL == "" {
		folders[assetsName] = filepath.Join(s.DataDir, "assets")
	} else if u, err := url.Parse(s.BlobURL); err == nil && u.Scheme == "file" {
		folders[assetsName] = u.Path
	}
	return folders
}

// Run restores a backup into an empty database and data folder, and migrates it to this version.
func (c restoreCommand) Run(ctx context.Context, s *Settings, stdout io.Writer) error {
	folders := s.folders()
	for _, folder := range folders {
		if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 {
			return fmt.Errorf("%s is not empty; restore into an empty data folder", folder)
		}
	}
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	// A damaged backup is refused before anything is written; pg_restore could read a damaged block again and again, for
	// ever.
	if _, err := courier.CheckBackup(ctx, file); err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := os.MkdirAll(s.DataDir, 0o755); err != nil { //nolint:gosec // PostgreSQL may run under its own account
		return err
	}
	compressed, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("%s is not a backup: %w", c.File, err)
	}
	r := &restorer{settings: s, archive: tar.NewReader(compressed), folders: folders}
	if err := r.read(ctx); err != nil {
		if r.hasKey { // a failed restore leaves nothing behind
			_ = os.Remove(s.keyFile())
		}
		for _, folder := range folders {
			_ = os.RemoveAll(folder)
		}
		return fmt.Errorf("%s: %w", c.File, err)
	}
	_, err = fmt.Fprintf(stdout, "restored the database and %d files, as of %s (version %s)\n", r.files,
		r.about.MadeAt.Format(time.RFC3339), r.about.Version)
	if err == nil && !r.about.HasKey {
		_, err = fmt.Fprintln(stdout, "set SECRET_KEY to its previous value: it is not in the backup")
	}
	if err == nil {
		_, err = fmt.Fprintln(stdout,
			"accounts and tokens are as they were then: revoke again anything revoked since; everyone must sign in again")
	}
	return err
}

// restorer reads a backup.
type restorer struct {
	settings *Settings
	archive  *tar.Reader
	folders  map[string]string
	about    courier.BackupManifest
	files    int
	hasDump  bool
	// hasKey means that the key file came from the backup.
	hasKey bool
}

func (r *restorer) read(ctx context.Context) error {
	for {
		header, err := r.archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := r.take(ctx, header); err != nil {
			return err
		}
	}
	if !r.hasDump {
		return errors.New("it contains no database")
	}
	return nil
}

func (r *restorer) take(ctx context.Context, header *tar.Header) error {
	switch name := header.Name; {
	case name == courier.BackupManifestName:
		if err := json.NewDecoder(r.archive).Decode(&r.about); err != nil {
			return err
		}
		if r.about.Format != courier.BackupFormat {
			return fmt.Errorf("it has format %d, but this version reads %d", r.about.Format, courier.BackupFormat)
		}
		return nil
	case r.about.Format == 0:
		return errors.New("it is not a backup of Wending")
	case name == courier.BackupKeyName:
		if _, err := os.Stat(r.settings.keyFile()); err == nil {
			return fmt.Errorf("%s already exists; restore into an empty data folder", r.settings.keyFile())
		}
		r.hasKey = true
		return r.store(r.settings.keyFile())
	case name == courier.BackupDumpName:
		r.hasDump = true
		return r.settings.database(ctx, func(url string) error {
			if err := upkeep.Restore(ctx, url, r.archive); err != nil {
				return err
			}
			if err := db.Migrate(ctx, url); err != nil {
				return err
			}
			return r.signOut(ctx, url)
		})
	}
	folder, local, _ := strings.Cut(header.Name, "/")
	if r.folders[folder] == "" {
		return fmt.Errorf("unexpected entry %q", header.Name)
	}
	if !filepath.IsLocal(filepath.FromSlash(local)) {
		return fmt.Errorf("%q is not a valid path", header.Name)
	}
	r.files++
	return r.store(filepath.Join(r.folders[folder], filepath.FromSlash(local)))
}

// signOut ends the sessions in a restored database, because some of them may have ended since the backup was made.
func (r *restorer) signOut(ctx context.Context, url string) error {
	store, err := db.Open(ctx, url, 1)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing is pending
	entry := people.AuditEntry{Action: "backup.restore", ObjectName: r.about.MadeAt.Format(time.RFC3339)}
	return r.settings.record(ctx, store, entry, nil, func() error { return people.New(store).EndAllSessions(ctx) })
}

// store writes the current entry of the archive to a file.
func (r *restorer) store(place string) error {
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(place, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, r.archive)
	return errors.Join(err, file.Sync(), file.Close())
}
