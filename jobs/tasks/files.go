package tasks

import (
	"context"
	"errors"
	"io"
	"path"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/jobs/blob"
)

func datasetKey(id uuid.UUID, extension string) string { return id.String() + "/dataset." + extension }

const pendingKey = "pending"

// pending is where the files of a task are while its rows are being made or removed. After a crash the rows decide what
// becomes of them (Sweep).
func pending(key string) string { return path.Join(pendingKey, key) }

// DatasetFile returns the file that a task was made from, or blob.ErrNotFound. The caller closes it.
func (s *Service) DatasetFile(ctx context.Context, task db.Task) (io.ReadSeekCloser, error) {
	key := datasetKey(task.ID, task.DatasetExtension)
	file, err := s.Files.Open(ctx, key)
	if errors.Is(err, blob.ErrNotFound) {
		return s.Files.Open(ctx, pending(key))
	}
	return file, err
}

func (s *Service) moveFiles(ctx context.Context, from, to string) {
	err := s.Files.Move(context.WithoutCancel(ctx), from, to)
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		s.Log.WarnContext(ctx, "could not move the files of a task, they will be later", "from", from, "to", to, "error", err)
	}
}

func (s *Service) deleteFiles(ctx context.Context, key string) {
	if err := s.Files.Delete(context.WithoutCancel(ctx), key); err != nil {
		s.Log.WarnContext(ctx, "could not remove the files of a task, they will be later", "key", key, "error", err)
	}
}

// Sweep tidies up what crashes left longer ago than age: files whose task was not stored or is removed are deleted,
// those of tasks that exist are put into their place.
func (s *Service) Sweep(ctx context.Context, age time.Duration) error {
	failure := s.Files.Sweep(ctx, age)
	entries, err := s.Files.List(ctx, pendingKey)
	if err != nil {
		return errors.Join(failure, err)
	}
	for _, entry := range entries {
		name := path.Base(entry.Key)
		id, err := uuid.Parse(name)
		if err != nil || time.Since(entry.StoredAt) <= age {
			continue
		}
		_, err = s.Store.Task(ctx, id)
		switch {
		case errors.Is(err, db.ErrNotFound):
			err = s.Files.Delete(ctx, entry.Key)
		case err == nil:
			if err = s.Files.Move(ctx, entry.Key, name); errors.Is(err, blob.ErrExists) { // a newer file is there
				err = s.Files.Delete(ctx, entry.Key)
			}
		}
		failure = errors.Join(failure, err)
	}
	return failure
}
