// Package static serves the product's own files under names that carry their content's hash, so that
// browsers keep them for good.
package static

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed assets
var files embed.FS

// Prefix is where the files are served.
const Prefix = "/static/"

// index has the hash of every file, by its name; names are those of the folder assets.
var index = sync.OnceValue(func() map[string]string {
	hashes := map[string]string{}
	entries, err := fs.ReadDir(files, "assets")
	if err != nil {
		panic(err) // the files are compiled in
	}
	for _, entry := range entries {
		sum := sha256.Sum256(Content(entry.Name()))
		hashes[entry.Name()] = hex.EncodeToString(sum[:6])
	}
	return hashes
})

// Content returns a file that is compiled in; it panics when there is none.
func Content(name string) []byte {
	content, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic(err)
	}
	return content
}

// URL returns where a file is served: /static/<hash>/<name>.
func URL(name string) string { return Prefix + index()[name] + "/" + name }

// Handler serves the files. A name with another hash is not found, so that no cache keeps a wrong one.
func Handler() http.Handler {
	_ = mime.AddExtensionType(".csv", "text/csv; charset=utf-8")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hash, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Prefix), "/")
		if known, ok := index()[name]; !ok || known != hash {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		if path.Ext(name) == ".csv" {
			w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(Content(name)))
	})
}
