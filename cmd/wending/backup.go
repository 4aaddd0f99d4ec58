package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"wending/db"
	"wending/db/people"
	"wending/db/pg/embedded"
	"wending/db/upkeep"
	"wending/jobs/blob"
)

type backupCommand struct {
	File  string `arg:"" placeholder:"FILE" help:"The .tar.gz file to write; it must not exist yet."`
	Check bool   `help:"Check that FILE is a complete, undamaged backup, instead of writing one."`
}

type restoreCommand struct {
	File string `arg:"" placeholder:"FILE" help:"A file written by 'backup'."`
}

// The files of a backup.
const (
	manifestName = "manifest.json"
	dumpName     = "database.dump"
	keyName      = "secret.key"
	uploadsName  = "uploads"
	assetsName   = "assets"
)

// manifest describes a backup.
type manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"`
	MadeAt  time.Time `json:"made_at"`
	// HasKey reports that the key is in the backup; otherwise SECRET_KEY is needed to restore it.
	HasKey bool `json:"has_key"`
}

const backupFormat = 1

// database calls work with the address of the database: the configured one, the running program's, or the address of a
// server started for this call.
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

// Run writes the database, uploads and key to one file, even while the program runs. A task's file is stored before
// its rows and removed after them, so reading the files both before and after the snapshot of the rows finds all
// files that the rows need.
func (c backupCommand) Run(ctx context.Context, s *Settings, stdout io.Writer) (err error) {
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
	compressed := gzip.NewWriter(aside)
	archive := tar.NewWriter(compressed)
	b := &backupWriter{archive: archive, folders: s.folders(), written: map[string]time.Time{}}
	if err := b.write(ctx, s); err != nil {
		return err
	}
	if err := errors.Join(archive.Close(), compressed.Close(), aside.Sync(), aside.Close()); err != nil {
		return err
	}
	if err := os.Rename(aside.Name(), c.File); err != nil {
		return err
	}
	if err := s.database(ctx, func(url string) error { return recordBackup(ctx, url) }); err != nil {
		return fmt.Errorf("%s is complete, but not recorded as the last backup: %w", c.File, err)
	}
	_, err = fmt.Fprintf(stdout, "%s: the database and %d files\n", c.File, len(b.written))
	if err == nil && b.folders[assetsName] == "" {
		_, err = fmt.Fprintln(stdout, "not included: the files that agents produced, which are stored at BLOB_URL")
	}
	if err == nil && !b.hasKey {
		_, err = fmt.Fprintln(stdout, "not included: SECRET_KEY; keep it elsewhere, or the secrets can never be decrypted")
	}
	return err
}

// checkBackup reads a backup as a whole, including the database in it, and prints what it contains.
func checkBackup(ctx context.Context, path string, stdout io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	compressed, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("%s is not a backup: %w", path, err)
	}
	var about manifest
	files, hasDump := 0, false
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			switch header.Name {
			case manifestName:
				err = json.NewDecoder(archive).Decode(&about)
			case dumpName:
				hasDump = true
				err = upkeep.CheckDump(ctx, archive)
			default:
				files++
			}
		}
		if err == nil {
			_, err = io.Copy(io.Discard, archive) //nolint:gosec // an operator asked for it, and nothing is stored
		}
		if err != nil {
			return fmt.Errorf("%s is damaged: %w", path, err)
		}
	}
	if about.Format != backupFormat || !hasDump {
		return fmt.Errorf("%s is not a complete backup of format %d", path, backupFormat)
	}
	_, err = fmt.Fprintf(stdout, "%s: complete, with the database and %d files, as of %s (version %s)\n", path, files,
		about.MadeAt.Format(time.RFC3339), about.Version)
	return err
}

// recordBackup records in the database at url that a backup has finished.
func recordBackup(ctx context.Context, url string) error {
	store, err := db.Open(ctx, url, 1)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing is pending
	return upkeep.NewMonitor(store).BackedUp(ctx)
}

// backupWriter writes a backup. written maps the files already in it to their modification times.
type backupWriter struct {
	archive *tar.Writer
	folders map[string]string
	written map[string]time.Time
	hasKey  bool
}

func (b *backupWriter) write(ctx context.Context, s *Settings) error {
	key, err := os.ReadFile(s.keyFile())
	if b.hasKey = err == nil && s.SecretKey == ""; err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	about, err := json.Marshal(manifest{backupFormat, buildVersion(), time.Now().UTC(), b.hasKey})
	if err != nil {
		return err
	}
	if err := b.add(manifestName, about); err != nil {
		return err
	}
	if b.hasKey {
		if err := b.add(keyName, key); err != nil {
			return err
		}
	}
	if err := b.addFolders(); err != nil {
		return err
	}
	dump, err := blob.Unnamed()
	if err != nil {
		return err
	}
	defer dump.Close() //nolint:errcheck // only read from here on
	if err := s.database(ctx, func(url string) error { return upkeep.Dump(ctx, url, dump) }); err != nil {
		return err
	}
	if err := b.addFile(dumpName, dump); err != nil {
		return err
	}
	return b.addFolders()
}

func (b *backupWriter) add(name string, content []byte) error {
	if err := b.archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)),
		ModTime: time.Now()}); err != nil {
		return err
	}
	_, err := b.archive.Write(content)
	return err
}

// addFile adds an open file from its beginning, up to its size at the time of the call.
func (b *backupWriter) addFile(name string, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := b.archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(),
		ModTime: info.ModTime()}); err != nil {
		return err
	}
	_, err = io.CopyN(b.archive, file, info.Size())
	return err
}

// folders returns the folders in a backup, by their names there.
func (s *Settings) folders() map[string]string {
	folders := map[string]string{uploadsName: filepath.Join(s.DataDir, "uploads")}
	if s.BlobURL == "" {
		folders[assetsName] = filepath.Join(s.DataDir, "assets")
	} else if u, err := url.Parse(s.BlobURL); err == nil && u.Scheme == "file" {
		folders[assetsName] = u.Path
	}
	return folders
}

func (b *backupWriter) addFolders() error {
	for name, folder := range b.folders {
		if err := b.addFolder(name, folder); err != nil {
			return err
		}
	}
	return nil
}

// addFolder adds the files that are new, or have changed since they were added. A file that disappears in the
// meantime belongs to deleted rows.
func (b *backupWriter) addFolder(folderName, folder string) error {
	return filepath.WalkDir(folder, func(place string, entry fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(place)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // only read
		info, err := file.Stat()
		if err != nil {
			return err
		}
		local, err := filepath.Rel(folder, place)
		name := path.Join(folderName, filepath.ToSlash(local))
		if err != nil || b.written[name].Equal(info.ModTime()) {
			return err
		}
		b.written[name] = info.ModTime()
		return b.addFile(name, file)
	})
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
	defer file.Close()                                    //nolint:errcheck // only read
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
	about    manifest
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
	case name == manifestName:
		if err := json.NewDecoder(r.archive).Decode(&r.about); err != nil {
			return err
		}
		if r.about.Format != backupFormat {
			return fmt.Errorf("it has format %d, but this version reads %d", r.about.Format, backupFormat)
		}
		return nil
	case r.about.Format == 0:
		return errors.New("it is not a backup of Wending")
	case name == keyName:
		if _, err := os.Stat(r.settings.keyFile()); err == nil {
			return fmt.Errorf("%s already exists; restore into an empty data folder", r.settings.keyFile())
		}
		r.hasKey = true
		return r.store(r.settings.keyFile())
	case name == dumpName:
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

// signOut ends the sessions in a backup, because some of them may have ended since it was made.
func (r *restorer) signOut(ctx context.Context, url string) error {
	store, err := db.Open(ctx, url, 1)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing is pending
	entry := people.AuditEntry{Action: "backup.restore", ObjectName: r.about.MadeAt.Format(time.RFC3339)}
	return r.settings.record(ctx, store, entry, nil, func() error { return people.New(store).EndAllSessions(ctx) })
}

// store writes the current entry to a file.
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
