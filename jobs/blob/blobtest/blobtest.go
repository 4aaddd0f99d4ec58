// Package blobtest starts a real S3 server for tests.
package blobtest

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/blob"
)

// Credentials are accepted by every server that Start starts.
var Credentials = blob.Credentials{AccessKeyID: "wending-test", SecretAccessKey: "secret-of-the-test"}

// Bucket is the name of the only bucket of each server.
const Bucket = "files"

// Start starts a server that stops when the test ends, and returns its address. The program must have been installed
// with make tools.
func Start(t testing.TB) (endpoint string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, Bucket), 0o700))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	server := exec.CommandContext(context.WithoutCancel(t.Context()), program(t), "--port", address, "--access",
		Credentials.AccessKeyID, "--secret", Credentials.SecretAccessKey,
		"posix", "--sidecar", t.TempDir(), dir)
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output bytes.Buffer
	server.Stdout, server.Stderr = &output, &output
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	require.Eventually(t, func() bool {
		connection, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = connection.Close()
		}
		return err == nil
	}, 20*time.Second, 20*time.Millisecond, "the S3 server does not start")
	return "http://" + address
}

// program returns the path of the server's program, in the project's bin folder.
func program(t testing.TB) string {
	t.Helper()
	root, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		require.NotEqual(t, root, filepath.Dir(root), "no go.mod above")
		root = filepath.Dir(root)
	}
	found, err := filepath.Glob(filepath.Join(root, "bin", "versitygw-*"))
	require.NoError(t, err)
	require.NotEmpty(t, found, "run 'make tools' once: it installs the S3 server of the tests")
	return found[len(found)-1]
}

// Open returns a store that keeps its files in the server's bucket, under a prefix.
func Open(t testing.TB, endpoint, prefix string) blob.Store {
	t.Helper()
	store, err := blob.Open("s3://"+Bucket+"/"+prefix+"?region=us-east-1&endpoint="+url.QueryEscape(endpoint), Credentials)
	require.NoError(t, err)
	return store
}
