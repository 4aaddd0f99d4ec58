package form

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"time"

	"wending/jobs/answers"
	"wending/jobs/blob"
	"wending/jobs/dataset"
	"wending/jobs/tasks"
)

// Staging keeps uploaded files for forms that are still being filled in, so that the browser sends a file only once. A
// file belongs to the browser that sent it: other browsers can neither use nor displace it.
type Staging struct{ Files *blob.Disk }

const (
	stagedKey = "staged"
	// stagedFor is how long a staged file waits for its form.
	stagedFor = 24 * time.Hour
	// maxStaged is how many files may wait in total, and maxStagedOfOne is how many may wait per browser, whose oldest
	// file is removed to make room. maxStagedBytes is the maximum size of all files together.
	maxStaged, maxStagedOfOne = 1000, 20
	maxStagedBytes            = maxStaged * dataset.MaxBytes
)

// tokenPattern matches tokens and browsers' ids, both of which rand.Text generates.
var tokenPattern = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// SourceToken stands in a form for the file of the task that the form copies, or of the draft that it edits.
const SourceToken = "source"

// IsToken reports whether a text may be a token or a browser's id.
func IsToken(text string) bool { return tokenPattern.MatchString(text) }

func keyOf(browser, token string) string { return stagedKey + "/" + browser + "-" + token }

// errStagingFull means that no more files can be staged.
var errStagingFull = errors.New("too many files are waiting for their forms")

// stagedHead is the first line of a staged file, in JSON; the content follows.
type stagedHead struct {
	Name string `json:"name"`
}

// Put stores a browser's file, and returns the token with which Get finds it.
func (s Staging) Put(ctx context.Context, browser string, file tasks.File) (token string, err error) {
	if err := s.tidy(ctx, browser); err != nil {
		return "", err
	}
	head, err := json.Marshal(stagedHead{file.Name})
	if err != nil {
		return "", err
	}
	token = rand.Text()
	content := append(append(head, '\n'), file.Content...)
	return token, s.Files.Put(ctx, keyOf(browser, token), bytes.NewReader(content), int64(len(content)))
}

// Get returns the file of questions that a browser stored under a token; nil if it has expired.
func (s Staging) Get(ctx context.Context, browser, token string) (*File, error) {
	return s.get(ctx, browser, token, dataset.MaxBytes)
}

// GetAnswers is like Get, but for a file of answers, which may be larger.
func (s Staging) GetAnswers(ctx context.Context, browser, token string) (*File, error) {
	return s.get(ctx, browser, token, answers.MaxBytes)
}

func (s Staging) get(ctx context.Context, browser, token string, most int) (*File, error) {
	if !IsToken(token) {
		return nil, nil
	}
	stored, err := s.Files.Open(ctx, keyOf(browser, token))
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
	if len(rest) > most {
		return &File{File: tasks.File{Name: head.Name}, IsTooLarge: true}, nil
	}
	return &File{File: tasks.File{Name: head.Name, Content: rest}}, nil
}

// Drop deletes a file whose task has been created. If that fails, tidy deletes it later.
func (s Staging) Drop(ctx context.Context, browser, token string) {
	if IsToken(token) {
		_ = s.Files.Delete(ctx, keyOf(browser, token))
	}
}

// tidy deletes expired files, and the browser's oldest file if it has as many as it may. It returns errStagingFull if
// there is no room for another file.
func (s Staging) tidy(ctx context.Context, browser string) error {
	entries, err := s.Files.List(ctx, stagedKey)
	if err != nil {
		return err
	}
	var oldest *blob.Entry
	own, all, size := 0, 0, int64(0)
	for n, entry := range entries {
		if time.Since(entry.StoredAt) > stagedFor {
			if err := s.Files.Delete(ctx, entry.Key); err != nil {
				return err
			}
			continue
		}
		all, size = all+1, size+entry.Size
		if !strings.HasPrefix(entry.Key, keyOf(browser, "")) {
			continue
		}
		if own++; oldest == nil || entry.StoredAt.Before(oldest.StoredAt) {
			oldest = &entries[n]
		}
	}
	switch {
	case own >= maxStagedOfOne:
		return s.Files.Delete(ctx, oldest.Key)
	case all >= maxStaged, size >= maxStagedBytes:
		return errStagingFull
	}
	return nil
}
