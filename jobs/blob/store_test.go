package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/require"

	"wending/jobs/blob"
	"wending/jobs/blob/blobtest"
)

// A folder and an S3 service store files in the same way.
func TestStoresKeepFilesInTheSameWay(t *testing.T) {
	t.Parallel()
	endpoint := blobtest.Start(t)
	folder, err := blob.Open("file://"+t.TempDir(), blob.Credentials{})
	require.NoError(t, err)
	for name, store := range map[string]blob.Store{"disk": folder, "s3": blobtest.Open(t, endpoint, "a/b")} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			random := rand.NewChaCha8([32]byte{7})
			large := make([]byte, 21<<20) // more than two parts
			_, _ = random.Read(large)
			require.NoError(t, store.Put(ctx, "t1/7-1/图 片.png", strings.NewReader("picture"), 7))
			require.NoError(t, store.Put(ctx, "t1/7-1/large.bin", bytes.NewReader(large), int64(len(large))))
			require.NoError(t, store.Put(ctx, "t2/x", strings.NewReader(""), 0))
			require.NoError(t, store.Put(ctx, "t2/x", strings.NewReader("again"), 5))

			file, err := store.Open(ctx, "t1/7-1/large.bin")
			require.NoError(t, err)
			_, err = file.Seek(20<<20, io.SeekStart)
			require.NoError(t, err)
			end, err := io.ReadAll(file)
			require.NoError(t, err)
			require.Equal(t, large[20<<20:], end)
			size, err := file.Seek(0, io.SeekEnd)
			require.NoError(t, err)
			require.EqualValues(t, len(large), size)
			require.NoError(t, file.Close())

			keys := func() (keys []string) {
				require.NoError(t, store.Walk(ctx, func(entry blob.Entry) error {
					require.WithinDuration(t, time.Now(), entry.StoredAt, time.Minute)
					keys = append(keys, entry.Key)
					return nil
				}))
				sort.Strings(keys)
				return keys
			}
			require.Equal(t, []string{"t1/7-1/large.bin", "t1/7-1/图 片.png", "t2/x"}, keys())
			enough := errors.New("enough")
			require.ErrorIs(t, store.Walk(ctx, func(blob.Entry) error { return enough }), enough)
			_, err = store.Open(ctx, "t1/none")
			require.ErrorIs(t, err, blob.ErrNotFound)
			require.NoError(t, store.Delete(ctx, "t1"))
			require.NoError(t, store.Delete(ctx, "t1"))
			require.Equal(t, []string{"t2/x"}, keys())
			for _, key := range []string{"../x", "/etc/passwd", "a/../../x", ""} {
				require.Error(t, store.Put(ctx, key, strings.NewReader("x"), 1), key)
				_, err := store.Open(ctx, key)
				require.Error(t, err, key)
				require.Error(t, store.Delete(ctx, key), key)
			}
			// A file whose source ends too early is not stored.
			require.Error(t, store.Put(ctx, "t3/short", strings.NewReader("four"), 5))
			_, err = store.Open(ctx, "t3/short")
			require.ErrorIs(t, err, blob.ErrNotFound)
		})
	}
}

// A service that vanishes in the middle of an upload leaves no file behind, and the next attempt succeeds. A browser
// that opens a file directly in the bucket gets its media type, unless it might execute the file.
func TestABucketKnowsWhatItsFilesAre(t *testing.T) {
	t.Parallel()
	endpoint := blobtest.Start(t)
	store := blobtest.Open(t, endpoint, "typed")
	client, err := minio.New(strings.TrimPrefix(endpoint, "http://"), &minio.Options{
		Creds:  credentials.NewStaticV4(blobtest.Credentials.AccessKeyID, blobtest.Credentials.SecretAccessKey, ""),
		Region: "us-east-1",
	})
	require.NoError(t, err)
	for content, want := range map[string]string{
		"\x89PNG\r\n\x1a\n" + strings.Repeat("x", 1000): "image/png",
		"GIF89a": "image/gif",
		"<!DOCTYPE html><script>alert(1)</script>":  "application/octet-stream",
		"<svg xmlns='http://www.w3.org/2000/svg'/>": "application/octet-stream",
		"": "application/octet-stream",
	} {
		require.NoError(t, store.Put(t.Context(), "f", strings.NewReader(content), int64(len(content))))
		found, err := client.StatObject(t.Context(), blobtest.Bucket, "typed/f", minio.StatObjectOptions{})
		require.NoError(t, err)
		require.Equal(t, want, found.ContentType, content)
		require.EqualValues(t, len(content), found.Size)
	}
}

func TestAServiceThatVanishesInTheMiddleOfAnUpload(t *testing.T) {
	t.Parallel()
	endpoint := blobtest.Start(t)
	target, err := url.Parse(endpoint)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	parts := 0
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	between := &http.Server{ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && r.URL.Query().Has("partNumber") {
				if parts++; parts == 2 {
					panic(http.ErrAbortHandler)
				}
			}
			if parts >= 2 {
				panic(http.ErrAbortHandler)
			}
			r.Host = target.Host
			proxy.ServeHTTP(w, r)
		})}
	go func() { _ = between.Serve(listener) }()
	t.Cleanup(func() { _ = between.Close() })
	// Signatures include the host name, so the client is given the service's own address, while its connections
	// lead to the proxy.
	content := make([]byte, 20<<20)
	broken, err := blob.Open(fmt.Sprintf("s3://files/x?endpoint=%s", url.QueryEscape("http://"+listener.Addr().String())),
		blobtest.Credentials)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.Error(t, broken.Put(ctx, "t/large", bytes.NewReader(content), int64(len(content))))
	whole := blobtest.Open(t, endpoint, "x")
	_, err = whole.Open(t.Context(), "t/large")
	require.ErrorIs(t, err, blob.ErrNotFound)
	require.NoError(t, whole.Put(t.Context(), "t/large", bytes.NewReader(content), int64(len(content))))
}

func TestAddressesOfStores(t *testing.T) {
	t.Parallel()
	for address, message := range map[string]string{
		"ftp://x": "neither file nor s3", "file://host/x": "a folder must be written", "s3:///x": "bucket is missing",
		"s3://b?x=1": "unknown parameter", "s3://b?endpoint=ftp://h": "the endpoint must be",
		"s3://b?endpoint=https://h/path": "the endpoint must be", "%": "not an address",
	} {
		_, err := blob.Open(address, blobtest.Credentials)
		require.ErrorContains(t, err, message, address)
	}
	_, err := blob.Open("s3://b/p?endpoint=http://127.0.0.1:9", blob.Credentials{})
	require.ErrorContains(t, err, "S3_ACCESS_KEY_ID")
	_, err = blob.Open("s3://b", blobtest.Credentials)
	require.NoError(t, err)
}
