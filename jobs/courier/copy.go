package courier

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gabriel-vasile/mimetype"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/db/event"
	"wending/db/upkeep"
	"wending/jobs/agent/observe"
	"wending/jobs/blob"
	"wending/jobs/reason"
	"wending/jobs/tasks"
)

// markStore reports whether the file store belongs to the installation: if isOwner is set, a store without a mark is
// marked. A store of another installation is never taken over: all of its files would look unreferenced.
func markStore(ctx context.Context, store *db.Store, files blob.Store, isOwner bool) (isOurs bool, err error) {
	salt, err := upkeep.NewSecrets(store).Salt(ctx)
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(append([]byte("files of "), salt...))
	mark := hex.EncodeToString(sum[:16])
	file, err := files.Open(ctx, markerKey)
	if errors.Is(err, blob.ErrNotFound) {
		if !isOwner {
			return false, nil
		}
		return true, files.Put(ctx, markerKey, strings.NewReader(mark), int64(len(mark)))
	}
	if err != nil {
		return false, err
	}
	defer file.Close() //nolint:errcheck // only read
	found, err := io.ReadAll(io.LimitReader(file, 64))
	return string(found) == mark, err
}

// folderOf returns the first part of the keys of a task's files.
func folderOf(taskID uuid.UUID) string { return taskID.String() }

// taskOf returns the task to which the file with the given key belongs.
func taskOf(key string) (id uuid.UUID, isOfTask bool) {
	folder, _, _ := strings.Cut(key, "/")
	id, err := uuid.Parse(folder)
	return id, err == nil
}

// keyOf returns the key under which a file is stored: its path within the folder of its call.
func keyOf(a engine.Asset) string {
	folder := folderOf(a.TaskID) + "/" + strconv.FormatInt(a.UnitID, 10) + "-" + strconv.Itoa(a.Epoch) + "/"
	if a.Attempt > 1 {
		folder = strings.TrimSuffix(folder, "/") + "-" + strconv.Itoa(a.Attempt) + "/"
	}
	return folder + a.Path
}

// copy copies a file, first to a temporary file, so that its type is known before it is stored.
func (c *Collector) copy(ctx context.Context, claimed engine.ClaimedAsset) error {
	spool, err := blob.Unnamed("")
	if err != nil {
		return err
	}
	defer spool.Close() //nolint:errcheck // it has no name, so nothing is left of it
	hash := sha256.New()
	size, err := c.fetch(ctx, claimed, io.MultiWriter(spool, hash))
	if err != nil {
		return err
	}
	copied := engine.AssetCopy{Size: size, SHA256: hash.Sum(nil)}
	if copied.Kind, copied.MediaType, err = identify(spool, claimed.Asset); err != nil {
		return err
	}
	if size == 0 {
		return final("file.empty")
	}
	same, isThere, err := c.assets().SameContent(ctx, claimed.TaskID, copied.SHA256, size)
	if err != nil {
		return err
	}
	if isThere {
		copied.StorageKey, copied.ThumbnailKey = same.StorageKey, same.ThumbnailKey
		_, err := c.assets().Settle(ctx, claimed, copied)
		return err
	}
	copied.StorageKey = keyOf(claimed.Asset)
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := c.Files.Put(ctx, copied.StorageKey, spool, size); err != nil {
		return err
	}
	if copied.ThumbnailKey, err = c.keeper().thumbnail(ctx, claimed.Asset, spool, copied); err != nil {
		return err
	}
	stored, err := c.assets().Settle(ctx, claimed, copied)
	switch {
	case errors.Is(err, db.ErrConflict): // the task may have been deleted in the meantime: none of its files stays
		if exists, lookErr := c.assets().Exists(ctx, claimed.TaskID); lookErr == nil && !exists {
			return errors.Join(err, c.Files.Delete(ctx, folderOf(claimed.TaskID)))
		}
	case err == nil && stored.StorageKey != copied.StorageKey: // another process has stored equal content first
		return c.drop(ctx, copied)
	}
	return err
}

// drop removes a copy that no asset refers to.
func (c *Collector) drop(ctx context.Context, copied engine.AssetCopy) error {
	err := c.Files.Delete(ctx, copied.StorageKey)
	if copied.ThumbnailKey != "" {
		err = errors.Join(err, c.Files.Delete(ctx, copied.ThumbnailKey))
	}
	if err != nil {
		c.Log.WarnContext(ctx, "duplicate file not removed, the sweep will remove it", "key", copied.StorageKey, "error", err)
	}
	return nil
}

// fetch writes a file's content, which it downloads unless it came inline, and returns its size in bytes.
func (c *Collector) fetch(ctx context.Context, claimed engine.ClaimedAsset, to io.Writer) (size int64, err error) {
	if claimed.OriginalURL == nil {
		if int64(len(claimed.Content)) > c.MaxBytes {
			return 0, c.tooLarge()
		}
		return io.Copy(to, bytes.NewReader(claimed.Content))
	}
	headers, origin, err := c.headersOf(ctx, claimed.Asset)
	if err != nil {
		return 0, err
	}
	size, err = c.Client.Fetch(ctx, *claimed.OriginalURL, origin, headers, c.MaxBytes, to)
	if errors.Is(err, errTooLarge) {
		err = c.tooLarge()
	}
	return size, err
}

func (c *Collector) tooLarge() error { return c.keeper().tooLarge() }

func (c *Collector) keeper() Keeper { return Keeper{c.Files, c.MaxBytes, c.Log} }

// Keeper stores files that agents produced. It is safe for concurrent use.
type Keeper struct {
	Files blob.Store
	// MaxBytes is the maximum size of a file in bytes; Keep refuses larger files.
	MaxBytes int64
	Log      *slog.Logger
}

func (k Keeper) tooLarge() error {
	return final("file.large", strconv.FormatInt(k.MaxBytes>>20, 10))
}

// Keep stores a file that another installation copied. It identifies the file's type by its content. number must differ
// between the files of a task that are stored in this way. IsRefused reports errors that are the file's fault.
func (k Keeper) Keep(ctx context.Context, a engine.Asset, number int, content io.Reader,
	withThumbnail bool) (copied engine.AssetCopy, err error) {
	spool, err := blob.Unnamed("")
	if err != nil {
		return copied, err
	}
	defer spool.Close() //nolint:errcheck // it has no name, so nothing is left of it
	hash := sha256.New()
	copied.Size, err = io.Copy(io.MultiWriter(spool, hash), io.LimitReader(content, k.MaxBytes+1))
	switch {
	case err != nil:
		return copied, err
	case copied.Size > k.MaxBytes:
		return copied, k.tooLarge()
	case copied.Size == 0:
		return copied, final("file.empty")
	}
	copied.SHA256 = hash.Sum(nil)
	if copied.Kind, copied.MediaType, err = identify(spool, a); err != nil {
		return copied, err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return copied, err
	}
	copied.StorageKey = folderOf(a.TaskID) + "/imported/" + strconv.Itoa(number) + "/" + a.Path
	if err := k.Files.Put(ctx, copied.StorageKey, spool, copied.Size); err != nil || !withThumbnail {
		return copied, err
	}
	copied.ThumbnailKey, err = k.thumbnail(ctx, a, spool, copied)
	return copied, err
}

// Drop removes all files of a task that was not stored.
func (k Keeper) Drop(ctx context.Context, taskID uuid.UUID) error {
	return k.Files.Delete(ctx, folderOf(taskID))
}

// NotArchived returns the reason that is stored for a file if the archive that lists it does not contain it.
func NotArchived() string { return reason.Because("file.archive") }

// IsRefused reports whether an error means that a file can never be stored, so that another attempt would be useless.
func IsRefused(err error) bool {
	refused := (*finalError)(nil)
	return errors.As(err, &refused)
}

// IsPath reports whether the path of a file stays within its folder and can be displayed and written on any system.
func IsPath(path string) bool { return observe.IsPath(path) }

// headersOf returns the headers and the origin of the target that produced a file. The headers are sent only if the
// file has the same origin.
func (c *Collector) headersOf(ctx context.Context,
	a engine.Asset) (headers map[string]string, origin string, err error) {
	task, err := c.Store.Task(ctx, db.AllProjects(), a.TaskID)
	if err != nil {
		return nil, "", err
	}
	if a.Target < 1 || a.Target > len(task.Targets) {
		return nil, "", nil
	}
	target, err := tasks.Open(c.Sealer, task.Targets[a.Target-1])
	if err != nil {
		return nil, "", nil //nolint:nilerr // the file may be public, so it is tried without the key
	}
	return target.Headers, tasks.OriginOf(target.URL), nil
}

// identify determines a file's type by its content. A file announced as an image, audio or video that is
// something else is refused: it may be a login page.
func identify(file *os.File, a engine.Asset) (kind, mediaType string, err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", "", err
	}
	found, err := mimetype.DetectReader(file)
	if err != nil {
		return "", "", fmt.Errorf("detect a file's type: %w", err)
	}
	mediaType, _, _ = strings.Cut(found.String(), ";")
	kind = observe.KindOf(mediaType)
	// Audio and video share container formats.
	isSoundOrFilm := func(kind string) bool { return kind == event.Audio || kind == event.Video }
	if a.Kind != event.File && kind != a.Kind && (!isSoundOrFilm(a.Kind) || !isSoundOrFilm(kind)) {
		return "", "", final("file.kind", mediaType, a.Kind)
	}
	return kind, mediaType, nil
}

// raster lists the image types from which thumbnails can be made.
var raster = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// thumbnail stores a small version of an image and returns its key; empty if none can be made.
func (k Keeper) thumbnail(ctx context.Context, a engine.Asset, file io.ReadSeeker,
	copied engine.AssetCopy) (key string, err error) {
	if !slices.Contains(raster, copied.MediaType) {
		return "", nil
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	small, err := makeThumbnail(ctx, file)
	if err != nil {
		k.Log.InfoContext(ctx, "no thumbnail created for an image", "asset_id", a.ID, "error", err)
		return "", nil
	}
	key = folderOf(a.TaskID) + "/thumbnails/" + a.ID.String() + ".jpg"
	return key, k.Files.Put(ctx, key, bytes.NewReader(small), int64(len(small)))
}

// makeThumbnail makes a thumbnail, and turns a panic of the decoder into an error.
func makeThumbnail(ctx context.Context, file io.ReadSeeker) (small []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return Thumbnail(ctx, file)
}
