package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"wending/jobs/secret"
)

// keyFile returns the file of generated keys in the data folder: the current key on the first line, earlier ones below.
func (s Settings) keyFile() string { return filepath.Join(s.DataDir, "secret.key") }

// secretKeys returns SECRET_KEY or, if it is not set, the keys in the data folder; if there are none, it generates one
// there. SECRET_KEY_PREVIOUS is added to the previous keys.
func (s Settings) secretKeys() (secret.Keys, error) {
	var previous []string
	if s.PreviousKey != "" {
		previous = []string{s.PreviousKey}
	}
	if s.SecretKey != "" {
		return secret.Keys{Current: s.SecretKey, Previous: previous}, nil
	}
	kept, err := s.keptKeys()
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(s.DataDir, 0o755); err != nil { //nolint:gosec // PostgreSQL may run under its own account
			return secret.Keys{}, fmt.Errorf("create the data folder: %w", err)
		}
		// The file is hard-linked into place, so that two processes that start at the same time use the same key.
		if err := s.writeKeys([]string{freshKey()}, os.Link); err != nil && !errors.Is(err, os.ErrExist) {
			return secret.Keys{}, err
		}
		kept, err = s.keptKeys()
	}
	if err != nil {
		return secret.Keys{}, err
	}
	return secret.Keys{Current: kept[0], Previous: append(kept[1:], previous...)}, nil
}

// keptKeys returns the keys in the data folder, the current one first.
func (s Settings) keptKeys() ([]string, error) {
	content, err := os.ReadFile(s.keyFile())
	if err != nil {
		return nil, fmt.Errorf("read the secret key: %w", err)
	}
	kept := strings.Fields(string(content))
	if len(kept) == 0 {
		return nil, fmt.Errorf("read the secret key: %s is empty", s.keyFile())
	}
	return kept, nil
}

// writeKeys writes keys to a temporary file and moves it into place with place, which is os.Link or os.Rename.
func (s Settings) writeKeys(keys []string, place func(from, to string) error) error {
	aside, err := os.CreateTemp(s.DataDir, ".secret-*") // mode 0600
	if err != nil {
		return fmt.Errorf("store the secret key: %w", err)
	}
	defer os.Remove(aside.Name()) //nolint:errcheck // the file is already gone if it was renamed
	_, err = aside.WriteString(strings.Join(keys, "\n") + "\n")
	if err = errors.Join(err, aside.Sync(), aside.Close()); err == nil {
		err = place(aside.Name(), s.keyFile())
	}
	if err != nil {
		return fmt.Errorf("store the secret key: %w", err)
	}
	return nil
}

func freshKey() string {
	fresh := make([]byte, 32)
	_, _ = rand.Read(fresh) // cannot fail
	return base64.StdEncoding.EncodeToString(fresh)
}
