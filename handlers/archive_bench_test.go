package handlers_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkArchive exports a task of 1,000 questions × 5 answers of 1,000 characters as an archive and imports it
// again, over real HTTP. It prints how long both took, compared with packing or unpacking the same parts and hashing
// them, and by how much the process's memory grew.
func BenchmarkArchive(b *testing.B) {
	const questions, runs, size = 1000, 5, 1000
	s := newSite(b, false)
	id := s.fill(b, questions, runs, size)
	export := func() []byte {
		answer, err := s.client.Get(s.URL + api + "/" + id + "/archive")
		require.NoError(b, err)
		defer func() { _ = answer.Body.Close() }()
		require.Equal(b, http.StatusOK, answer.StatusCode)
		content, err := io.ReadAll(answer.Body)
		require.NoError(b, err)
		return content
	}
	content := export()
	parts, unpacked := unpack(b, content)
	b.Run("export", func(b *testing.B) {
		for range b.N {
			bare := timed(func() { pack(b, parts) })
			most, took := int64(0), time.Duration(0)
			most = growth(b, func() { took = timed(func() { content = export() }) })
			b.ReportMetric(float64(most)/(1<<20), "MiB-grown")
			b.ReportMetric(float64(unpacked)/(1<<20)/took.Seconds(), "MiB/s")
			b.ReportMetric(took.Seconds()/bare.Seconds(), "×-bare-copy")
		}
	})
	b.Run("import", func(b *testing.B) {
		for range b.N {
			bare := timed(func() { unpack(b, content) })
			most, took := int64(0), time.Duration(0)
			most = growth(b, func() {
				took = timed(func() {
					answer, err := s.client.Post(s.URL+api+"/import", "application/zip", bytes.NewReader(content))
					require.NoError(b, err)
					_ = answer.Body.Close()
					require.Equal(b, http.StatusCreated, answer.StatusCode)
				})
			})
			b.ReportMetric(float64(most)/(1<<20), "MiB-grown")
			b.ReportMetric(questions*runs/took.Seconds(), "runs/s")
			b.ReportMetric(took.Seconds()/bare.Seconds(), "×-bare-copy")
		}
	})
}

func timed(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

// growth returns the maximum growth of this process's memory, in bytes, while do runs.
func growth(b *testing.B, do func()) int64 {
	b.Helper()
	before, most := resident(b), atomic.Int64{}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if now, err := residentNow(); err == nil {
					most.Store(max(most.Load(), now-before))
				}
			}
		}
	}()
	do()
	close(done)
	<-ended
	return most.Load()
}

// unpack unpacks and hashes the parts of an archive.
func unpack(b *testing.B, content []byte) (parts map[string][]byte, size int) {
	b.Helper()
	files, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	require.NoError(b, err)
	parts = map[string][]byte{}
	for _, one := range files.File {
		file, err := one.Open()
		require.NoError(b, err)
		part, err := io.ReadAll(file)
		require.NoError(b, err)
		_ = sha256.Sum256(part)
		parts[one.Name], size = part, size+len(part)
	}
	return parts, size
}

// pack packs and hashes the parts of an archive.
func pack(b *testing.B, parts map[string][]byte) {
	b.Helper()
	files := zip.NewWriter(io.Discard)
	for name, part := range parts {
		file, err := files.Create(name)
		require.NoError(b, err)
		_ = sha256.Sum256(part)
		_, err = file.Write(part)
		require.NoError(b, err)
	}
	require.NoError(b, files.Close())
}
