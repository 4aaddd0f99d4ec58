package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// s3 stores files in a bucket of an S3-compatible service, under a prefix.
type s3 struct {
	client         *minio.Client
	bucket, prefix string
}

// partSize is the size in bytes of the parts in which a large file is uploaded, and so the memory that an upload needs.
const partSize = 8 << 20

// newS3 returns the store at s3://bucket/prefix?endpoint=…&region=…; the default endpoint is Amazon's.
func newS3(u *url.URL, given Credentials) (*s3, error) {
	query := u.Query()
	endpoint, region := query.Get("endpoint"), query.Get("region")
	for name := range query {
		if name != "endpoint" && name != "region" {
			return nil, fmt.Errorf("unknown parameter %q: only endpoint and region are allowed", name)
		}
	}
	if u.Host == "" {
		return nil, errors.New("the bucket is missing: s3://bucket/prefix")
	}
	if given.AccessKeyID == "" || given.SecretAccessKey == "" {
		return nil, errors.New("s3:// needs S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY")
	}
	if endpoint == "" {
		endpoint = "https://s3.amazonaws.com"
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || strings.Trim(at.Path, "/") != "" {
		return nil, errors.New("the endpoint must be http://host:port or https://host:port")
	}
	if region == "" {
		region = "us-east-1" // otherwise the client would request the bucket's region before each call
	}
	transport, err := minio.DefaultTransport(at.Scheme == "https")
	if err != nil {
		return nil, err
	}
	transport.ResponseHeaderTimeout = 30 * time.Second
	options := &minio.Options{
		Creds: credentials.NewStaticV4(given.AccessKeyID, given.SecretAccessKey, ""), Secure: at.Scheme == "https",
		Region: region, Transport: transport,
		MaxRetries: 3, BucketLookup: minio.BucketLookupPath,
	}
	if strings.HasSuffix(at.Hostname(), ".amazonaws.com") || strings.HasSuffix(at.Hostname(), ".aliyuncs.com") {
		options.BucketLookup = minio.BucketLookupDNS
	}
	client, err := minio.New(at.Host, options)
	if err != nil {
		return nil, err
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &s3{client: client, bucket: u.Host, prefix: prefix}, nil
}

func (s *s3) name(key string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(key)) || key == "." {
		return "", fmt.Errorf("%q is not a valid key", key)
	}
	return s.prefix + key, nil
}

// typeOf returns the media type that a file gets in the bucket, for people who open it there: only image, audio and
// video types, and none that a browser might execute.
func typeOf(begin []byte) string {
	found := http.DetectContentType(begin)
	for _, kind := range []string{"image/", "audio/", "video/"} {
		if strings.HasPrefix(found, kind) && !strings.Contains(found, "svg") {
			return found
		}
	}
	return "application/octet-stream"
}

// Put implements Store.
func (s *s3) Put(ctx context.Context, key string, content io.Reader, size int64) error {
	name, err := s.name(key)
	if err != nil {
		return err
	}
	begin := make([]byte, 512)
	n, err := io.ReadFull(content, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	options := minio.PutObjectOptions{PartSize: partSize, NumThreads: 1, ContentType: typeOf(begin[:n])}
	_, err = s.client.PutObject(ctx, s.bucket, name, io.MultiReader(bytes.NewReader(begin[:n]), content), size, options)
	if err != nil && size > partSize {
		tidying, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = s.client.RemoveIncompleteUpload(tidying, s.bucket, name) // if this fails, the bucket's own rules remove the parts
	}
	return s.failed("store a file", err)
}

// Open implements Store.
func (s *s3) Open(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	name, err := s.name(key)
	if err != nil {
		return nil, err
	}
	object, err := s.client.GetObject(ctx, s.bucket, name, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.failed("open a file", err)
	}
	if _, err := object.Stat(); err != nil {
		_ = object.Close()
		return nil, s.failed("open a file", err)
	}
	return object, nil
}

// Delete implements Store.
func (s *s3) Delete(ctx context.Context, key string) error {
	name, err := s.name(key)
	if err != nil {
		return err
	}
	if err := s.client.RemoveObject(ctx, s.bucket, name, minio.RemoveObjectOptions{}); err != nil && !isMissing(err) {
		return s.failed("delete a file", err)
	}
	listing, cancel := context.WithCancel(ctx)
	defer cancel()
	for object := range s.client.ListObjects(listing, s.bucket,
		minio.ListObjectsOptions{Prefix: name + "/", Recursive: true}) {
		if object.Err != nil {
			return s.failed("list files", object.Err)
		}
		if err := s.client.RemoveObject(ctx, s.bucket, object.Key, minio.RemoveObjectOptions{}); err != nil {
			return s.failed("delete a file", err)
		}
	}
	return nil
}

// Walk implements Store.
func (s *s3) Walk(ctx context.Context, take func(Entry) error) error {
	listing, cancel := context.WithCancel(ctx)
	defer cancel()
	for object := range s.client.ListObjects(listing, s.bucket,
		minio.ListObjectsOptions{Prefix: s.prefix, Recursive: true}) {
		if object.Err != nil {
			return s.failed("list files", object.Err)
		}
		found := Entry{Key: strings.TrimPrefix(object.Key, s.prefix), StoredAt: object.LastModified, Size: object.Size}
		if err := take(found); err != nil {
			return err
		}
	}
	return nil
}

func isMissing(err error) bool { return minio.ToErrorResponse(err).Code == minio.NoSuchKey }

// failed returns the error of a failed operation. The service's message contains no secrets.
func (s *s3) failed(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case isMissing(err):
		return ErrNotFound
	case minio.ToErrorResponse(err).StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: the bucket %s: %w", doing, s.bucket, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
