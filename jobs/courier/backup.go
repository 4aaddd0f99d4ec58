package courier

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"wending/db/upkeep"
	"wending/jobs/blob"
)

// The names of files in a backup. All other files are in the folders that Backup.Folders names.
const (
	BackupManifestName = "manifest.json"
	BackupDumpName     = "database.dump"
	BackupKeyName      = "secret.key"
)

// BackupFormat is the format that this version writes and reads.
const BackupFormat = 1

// BackupManifest describes a backup.
type BackupManifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"`
	MadeAt  time.Time `json:"made_at"`
	// HasKey reports that the key is in the backup; otherwise SECRET_KEY is needed to restore it.
	HasKey bool `json:"has_key"`
}

// Backup describes the installation that is backed up.
type Backup struct {
	Version string
	// KeyFile is the file of the generated key; it may be missing. Empty means that the key is kept elsewhere.
	KeyFile string
	// Folders maps the names of folders in the backup to the folders on disk whose files they hold.
	Folders map[string]string
	// Dump writes the database.
	Dump func(context.Context, io.Writer) error
	// TempDir is where the database is stored until its size is known; empty means the system's folder.
	TempDir string
	// Progress is called every ProgressEvery with the number of bytes that the database or the whole backup has so far;
	// nil means that progress is not reported.
	Progress      func(part string, bytes int64)
	ProgressEvery time.Duration
}

// BackupContent summarises a backup.
type BackupContent struct {
	BackupManifest
	// Files counts the files in folders.
	Files int
}

// Write writes a backup, even while the program runs. A task's file is stored before its rows and removed after them,
// so reading the files both before and after the snapshot of the rows finds all files that the rows need.
//
// The database is not compressed, because pg_dump has already done that; the rest is, because uploads are text.
func (b Backup) Write(ctx context.Context, file io.Writer) (content BackupContent, err error) {
	packed := &packer{file: &meter{w: file, part: "backup", of: b}}
	if err := packed.compress(gzip.BestSpeed); err != nil {
		return content, err
	}
	w := &backupWriter{archive: tar.NewWriter(packed), folders: b.Folders, written: map[string]time.Time{}}
	content.BackupManifest, err = b.begin(w)
	if err != nil {
		return content, err
	}
	if err := w.addFolders(ctx); err != nil {
		return content, err
	}
	dump, err := blob.Unnamed(b.TempDir)
	if err != nil {
		return content, err
	}
	defer dump.Close() //nolint:errcheck // only read from here on
	if err := b.Dump(ctx, &meter{w: dump, part: "database", of: b}); err != nil {
		return content, err
	}
	if err := errors.Join(w.archive.Flush(), packed.compress(gzip.NoCompression)); err != nil {
		return content, err
	}
	if err := w.addFile(BackupDumpName, dump); err != nil {
		return content, err
	}
	if err := errors.Join(w.archive.Flush(), packed.compress(gzip.BestSpeed)); err != nil {
		return content, err
	}
	err = errors.Join(w.addFolders(ctx), w.archive.Close(), packed.zip.Close())
	content.Files = len(w.written)
	return content, err
}

// begin writes the manifest and the key.
func (b Backup) begin(w *backupWriter) (about BackupManifest, err error) {
	var key []byte
	if b.KeyFile != "" {
		if key, err = os.ReadFile(b.KeyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return about, err
		}
	}
	about = BackupManifest{BackupFormat, b.Version, time.Now().UTC(), len(key) > 0}
	content, err := json.Marshal(about)
	if err != nil {
		return about, err
	}
	err = w.add(BackupManifestName, content)
	if err == nil && about.HasKey {
		err = w.add(BackupKeyName, key)
	}
	return about, err
}

// packer compresses a stream in parts, each with its own compression level.
type packer struct {
	file io.Writer
	zip  *gzip.Writer
}

// Write implements io.Writer.
func (p *packer) Write(part []byte) (int, error) { return p.zip.Write(part) }

// compress begins another part with the given compression level.
func (p *packer) compress(level int) (err error) {
	if p.zip != nil {
		if err := p.zip.Close(); err != nil {
			return err
		}
	}
	p.zip, err = gzip.NewWriterLevel(p.file, level)
	return err
}

// meter is a writer that reports to of.Progress how many bytes have been written.
type meter struct {
	w     io.Writer
	part  string
	of    Backup
	bytes int64
	last  time.Time
}

// Write implements io.Writer.
func (m *meter) Write(part []byte) (int, error) {
	n, err := m.w.Write(part)
	m.bytes += int64(n)
	if m.last.IsZero() {
		m.last = time.Now()
	}
	if m.of.Progress != nil && time.Since(m.last) >= m.of.ProgressEvery {
		m.last = time.Now()
		m.of.Progress(m.part, m.bytes)
	}
	return n, err
}

// backupWriter writes the archive. written maps the files already in it to their modification times.
type backupWriter struct {
	archive *tar.Writer
	folders map[string]string
	written map[string]time.Time
}

func (w *backupWriter) add(name string, content []byte) error {
	if err := w.archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)),
		ModTime: time.Now()}); err != nil {
		return err
	}
	_, err := w.archive.Write(content)
	return err
}

// addFile adds an open file from its beginning, up to its size at the time of the call.
func (w *backupWriter) addFile(name string, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := w.archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(),
		ModTime: info.ModTime()}); err != nil {
		return err
	}
	_, err = io.CopyN(w.archive, file, info.Size())
	return err
}

func (w *backupWriter) addFolders(ctx context.Context) error {
	for name, folder := range w.folders {
		if err := w.addFolder(ctx, name, folder); err != nil {
			return err
		}
	}
	return nil
}

// addFolder adds the files that are new, or have changed since they were added. A file that disappears in the
// meantime belongs to deleted rows.
func (w *backupWriter) addFolder(ctx context.Context, folderName, folder string) error {
	return filepath.WalkDir(folder, func(place string, entry fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return ctx.Err()
		}
		if err != nil || !entry.Type().IsRegular() {
			return errors.Join(err, ctx.Err())
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
		if err != nil || w.written[name].Equal(info.ModTime()) {
			return err
		}
		w.written[name] = info.ModTime()
		return errors.Join(w.addFile(name, file), ctx.Err())
	})
}

// CheckBackup reads a backup as a whole, including the database in it. An error means that it is damaged or incomplete.
func CheckBackup(ctx context.Context, file io.Reader) (content BackupContent, err error) {
	compressed, err := gzip.NewReader(file)
	if err != nil {
		return content, fmt.Errorf("not a backup: %w", err)
	}
	hasDump, files := false, map[string]bool{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			switch header.Name {
			case BackupManifestName:
				err = json.NewDecoder(archive).Decode(&content.BackupManifest)
			case BackupKeyName:
			case BackupDumpName:
				hasDump = true
				err = upkeep.CheckDump(ctx, archive, upkeep.Patience)
			default:
				files[header.Name] = true
			}
		}
		if err == nil {
			_, err = io.Copy(io.Discard, archive) //nolint:gosec // an operator asked for it, and nothing is stored
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return content, fmt.Errorf("damaged: %w", err)
		}
	}
	if content.Format != BackupFormat || !hasDump {
		return content, fmt.Errorf("not a complete backup of format %d", BackupFormat)
	}
	content.Files = len(files)
	return content, nil
}
