package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Disk stores files in a folder that only this account can read. A key is a path relative to the folder, with
// slashes.
type Disk struct{ dir string }

// NewDisk returns the store in a folder, which is created if it does not exist.
func NewDisk(dir string) (*Disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder for uploads: %w", err)
	}
	return &Disk{dir}, nil
}

func (d *Disk) path(key string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(key)) {
		return "", fmt.Errorf("%q is not a valid key", key)
	}
	return filepath.Join(d.dir, filepath.FromSlash(key)), nil
}

// Put implements Store.
func (d *Disk) Put(_ context.Context, key string, content io.Reader, size int64) (err error) {
	path, err := d.path(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("store a file: %w", err)
	}
	file, err := d.newFile()
	if err != nil {
		return fmt.Errorf("store a file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
			_ = os.Remove(filepath.Dir(path)) // this succeeds only if the folder is empty
		}
	}()
	written, err := io.Copy(file, content)
	if err == nil && written != size {
		err = fmt.Errorf("%d bytes received instead of %d", written, size)
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("store a file: %w", err)
	}
	return nil
}

// writing is the folder of files that are still being written.
const writing = ".writing"

func (d *Disk) newFile() (*os.File, error) {
	dir := filepath.Join(d.dir, writing)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.CreateTemp(dir, "*")
}

// ErrExists means that a file with the key already exists.
var ErrExists = errors.New("the file already exists")

// Move changes the key of a file, or of all files whose keys begin with a key and a slash. It returns ErrNotFound
// if there are none, and ErrExists if the new key is taken.
func (d *Disk) Move(_ context.Context, from, to string) error {
	source, err := d.path(from)
	if err != nil {
		return err
	}
	target, err := d.path(to)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return fmt.Errorf("move a file: %w", err)
	}
	now := time.Now() // a key's time is the time of its last move
	_ = os.Chtimes(source, now, now)
	switch err := renameNew(source, target); {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotFound
	case errors.Is(err, fs.ErrExist):
		return ErrExists
	case err != nil:
		return fmt.Errorf("move a file: %w", err)
	}
	return nil
}

// renameNew renames a file or a folder, and fails if the target exists, so that nothing is replaced. A file is linked
// to its new name first, because renaming it would replace another one.
func renameNew(source, target string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.Rename(source, target)
	}
	if err := os.Link(source, target); err != nil {
		return err
	}
	return os.Remove(source)
}

// Sweep removes unfinished files that are older than age; crashes leave them behind.
func (d *Disk) Sweep(ctx context.Context, age time.Duration) error {
	unfinished, err := d.List(ctx, writing)
	if err != nil {
		return err
	}
	for _, entry := range unfinished {
		if time.Since(entry.StoredAt) > age {
			err = errors.Join(err, d.Delete(ctx, entry.Key))
		}
	}
	return err
}

// Open implements Store.
func (d *Disk) Open(_ context.Context, key string) (io.ReadSeekCloser, error) {
	path, err := d.path(key)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("open a file: %w", err)
	}
	return file, nil
}

// Delete implements Store.
func (d *Disk) Delete(_ context.Context, key string) error {
	path, err := d.path(key)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("delete a file: %w", err)
	}
	return nil
}

// List returns the entries directly under a key.
func (d *Disk) List(_ context.Context, key string) ([]Entry, error) {
	path, err := d.path(key)
	if err != nil {
		return nil, err
	}
	found, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	var entries []Entry
	for _, one := range found {
		info, err := one.Info()
		if err != nil {
			continue // removed in the meantime
		}
		entries = append(entries, Entry{Key: key + "/" + one.Name(), StoredAt: info.ModTime(), Size: info.Size()})
	}
	return entries, nil
}

// Usage is the disk usage of files; Folders holds the bytes used by each top-level folder.
type Usage struct {
	Files   int
	Bytes   int64
	Folders map[string]int64
}

// Usage measures all files in the store, including unfinished ones.
func (d *Disk) Usage(ctx context.Context) (usage Usage, err error) {
	usage.Folders = map[string]int64{}
	err = filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !entry.Type().IsRegular() {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // removed in the meantime
		}
		usage.Files, usage.Bytes = usage.Files+1, usage.Bytes+info.Size()
		if key, err := filepath.Rel(d.dir, path); err == nil {
			folder, _, _ := strings.Cut(filepath.ToSlash(key), "/")
			usage.Folders[folder] += info.Size()
		}
		return ctx.Err()
	})
	if err != nil {
		return usage, fmt.Errorf("measure the files: %w", err)
	}
	return usage, nil
}

// Walk implements Store.
func (d *Disk) Walk(ctx context.Context, take func(Entry) error) error {
	err := filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && entry.IsDir() && entry.Name() == writing {
			return fs.SkipDir
		}
		if err != nil || !entry.Type().IsRegular() {
			return errors.Join(err, ctx.Err())
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // removed in the meantime
		}
		key, err := filepath.Rel(d.dir, path)
		if err != nil {
			return err
		}
		return errors.Join(take(Entry{Key: filepath.ToSlash(key), StoredAt: info.ModTime(), Size: info.Size()}), ctx.Err())
	})
	if err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	return nil
}
