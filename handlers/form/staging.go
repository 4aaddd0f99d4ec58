package form

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"time"

	"wending/jobs/blob"
	"wending/jobs/tasks"
)

// Staging keeps uploaded files for forms that are still being filled in, so that a file is sent once.
type Staging struct{ Files *blob.Disk }

const (
	stagedKey = "staged"
	// stagedFor is how long a staged file waits for its form.
	stagedFor = 24 * time.Hour
	maxStaged = 200
)

var tokenPattern = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// stagedHead is the first line of a staged file; the content follows.
type stagedHead struct {
	Name string `json:"name"`
}

// Put stores a file and returns the token that names it.
func (s Staging) Put(ctx context.Context, file tasks.File) (token string, err error) {
	if err := s.tidy(ctx); err != nil {
		return "", err
	}
	head, err := json.Marshal(stagedHead{file.Name})
	if err != nil {
		return "", err
	}
	token = rand.Text()
	return token, s.Files.Put(ctx, stagedKey+"/"+token, append(append(head, '\n'), file.Content...))
}

// Get returns the file of a token; nil if it has expired.
func (s Staging) Get(ctx context.Context, token string) (*File, error) {
	if !tokenPattern.MatchString(token) {
		return nil, nil
	}
	stored, err := s.Files.Open(ctx, stagedKey+"/"+token)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer stored.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(stored)
	if err != nil {
		return nil, err
	}
	first, rest, _ := bytes.Cut(content, []byte("\n"))
	var head stagedHead
	if err := json.Unmarshal(first, &head); err != nil {
		return nil, err
	}
	return &File{File: tasks.File{Name: head.Name, Content: rest}}, nil
}

// Drop removes a file whose task has been created. If that fails, tidy removes it later.
func (s Staging) Drop(ctx context.Context, token string) {
	if tokenPattern.MatchString(token) {
		_ = s.Files.Delete(ctx, stagedKey+"/"+token)
	}
}

// tidy removes files whose form was abandoned, and the oldest if there are too many.
func (s Staging) tidy(ctx context.Context) error {
	entries, err := s.Files.List(ctx, stagedKey)
	if err != nil {
		return err
	}
	var oldest *blob.Entry
	for n, entry := range entries {
		if time.Since(entry.StoredAt) > stagedFor {
			if err := s.Files.Delete(ctx, entry.Key); err != nil {
				return err
			}
		} else if oldest == nil || entry.StoredAt.Before(oldest.StoredAt) {
			oldest = &entries[n]
		}
	}
	if len(entries) >= maxStaged && oldest != nil {
		return s.Files.Delete(ctx, oldest.Key)
	}
	return nil
}
