// Package blob stores files under keys, which are paths with slashes: the datasets of tasks, uploads that wait for
// their form, and the files that agents produce.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"
)

// Store keeps files, each under its key. It is safe for concurrent use.
type Store interface {
	// Put stores a file of size bytes, completely or not at all, even if the process crashes. It replaces an older
	// file with the key.
	Put(ctx context.Context, key string, content io.Reader, size int64) error
	// Open returns a file, or ErrNotFound. The caller closes it.
	Open(ctx context.Context, key string) (io.ReadSeekCloser, error)
	// Delete removes a file, or all files whose keys begin with the key and a slash. It is not an error if no
	// such file exists.
	Delete(ctx context.Context, key string) error
	// Walk calls take for every file, in any order, until take returns an error.
	Walk(ctx context.Context, take func(Entry) error) error
}

// ErrNotFound means that no file has the key.
var ErrNotFound = errors.New("no such file")

// Entry is a stored file. In the result of Disk.List, it may also be a folder.
type Entry struct {
	Key      string
	StoredAt time.Time
	// Size is in bytes.
	Size int64
}

// Credentials are a key pair for an S3 service.
type Credentials struct{ AccessKeyID, SecretAccessKey string }

// Open returns the store at the given address: file:///folder, or
// s3://bucket/prefix?endpoint=https://host:port&region=name.
func Open(address string, credentials Credentials) (Store, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil,
			errors.New("not an address such as file:///folder or s3://bucket/prefix?endpoint=https://host&region=name")
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" || u.Path == "" {
			return nil, errors.New("a folder must be written as file:///folder")
		}
		// The folder is created with the first file, because processes that store nothing should not have one.
		return &Disk{u.Path}, nil
	case "s3":
		return newS3(u, credentials)
	}
	return nil, fmt.Errorf("the scheme %q is neither file nor s3", u.Scheme)
}

// Addresses returns the host:port of a store's S3 service; nil if its endpoint has no port, as with public services.
func Addresses(address string) []string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "s3" {
		return nil
	}
	endpoint, err := url.Parse(u.Query().Get("endpoint"))
	if err != nil || endpoint.Port() == "" {
		return nil
	}
	return []string{endpoint.Host}
}
