// Package static serves the product's own files under paths that carry the hash of their content, so that
// browsers keep them permanently.
package static

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed assets
var embedded embed.FS

// Prefix is the path under which the files are served.
const Prefix = "/static/"

// dir is a folder from which the files are read at every request, for development (WENDING_STATIC_DIR, set by `make
// dev`); empty means the compiled-in files.
var dir = sync.OnceValue(func() string { return os.Getenv("WENDING_STATIC_DIR") })

// index maps the name of every file, relative to the folder assets, to its hash.
var index = sync.OnceValue(func() map[string]string {
	hashes := map[string]string{}
	err := fs.WalkDir(embedded, "assets", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := embedded.ReadFile(file)
		sum := sha256.Sum256(content)
		hashes[strings.TrimPrefix(file, "assets/")] = hex.EncodeToString(sum[:6])
		return err
	})
	if err != nil {
		panic(err) // cannot fail, because the files are compiled in
	}
	return hashes
})

// Content returns a file; it panics if the file does not exist.
func Content(name string) []byte {
	if dir() != "" {
		if content, err := os.ReadFile(path.Join(dir(), name)); err == nil {
			return content
		}
	}
	content, err := embedded.ReadFile("assets/" + name)
	if err != nil {
		panic(err)
	}
	return content
}

// URL returns the path of a file: /static/<hash>/<name>.
func URL(name string) string {
	hash, isThere := index()[name]
	if !isThere {
		panic("no static file " + name)
	}
	if dir() != "" {
		hash = "dev"
	}
	return Prefix + hash + "/" + name
}

// Handler serves the files. A path with a wrong hash is not found, so that no cache stores the wrong file.
func Handler() http.Handler {
	_ = mime.AddExtensionType(".csv", "text/csv; charset=utf-8")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hash, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Prefix), "/")
		known, isThere := index()[name]
		isDev := dir() != "" && hash == "dev"
		if !isThere || (known != hash && !isDev) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		if isDev {
			w.Header().Set("Cache-Control", "no-store")
		}
		if path.Ext(name) == ".csv" {
			w.Header().Set("Content-Disposition", `attachment; filename="`+path.Base(name)+`"`)
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(Content(name)))
	})
}
