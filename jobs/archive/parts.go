package archive

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"wending/jobs/dataset"
)

// The parts of an archive. manifestName, taskName, itemsName and runsName are always there.
const (
	manifestName = "manifest.json"
	taskName     = "task.json"
	itemsName    = "items.jsonl"
	runsName     = "runs.jsonl"
	eventsName   = "events.jsonl"
	toolsName    = "tools.jsonl"
	assetsName   = "assets.jsonl"
	samplesName  = "samples.jsonl"
	pairsName    = "pairs.jsonl"
	datasetName  = "dataset."
	reportName   = "report."
	filesFolder  = "files/"
)

const (
	kind = "wending-task"
	// format is the format of archives that are written. Format 1 had no hashes and no events; its files are not read.
	format    = 2
	oldFormat = 1
)

// manifest describes an archive. It is the last part that is written, because it has the hashes of the others.
type manifest struct {
	Kind       string    `json:"kind"`
	Format     int       `json:"format"`
	Version    string    `json:"version"`
	ExportedAt time.Time `json:"exported_at"`
	// Parts maps the names of all other parts to their SHA-256 hashes in hexadecimal.
	Parts hashes `json:"parts,omitempty"`
}

// hashes maps the names of at most maxParts parts to their hashes: a list of millions of short names would take many
// times its size in memory.
type hashes map[string]string

// UnmarshalJSON implements json.Unmarshaler.
func (h *hashes) UnmarshalJSON(text []byte) error {
	*h = nil
	if string(text) == "null" {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return valueError("parts", wantJSON)
	}
	*h = hashes{}
	for decoder.More() {
		name, err := decoder.Token()
		hash := ""
		if err == nil {
			err = decoder.Decode(&hash)
		}
		if err != nil {
			return valueError("parts", wantJSON)
		}
		if len(*h) == maxParts {
			return &Error{Problem: ProblemParts, Args: map[string]any{"Max": maxParts}}
		}
		(*h)[name.(string)] = hash
	}
	return nil
}

// members writes the parts of an archive, one after the other, and hashes them.
type members struct {
	*zip.Writer
	now   time.Time
	name  string
	hash  hash.Hash
	parts map[string]string
}

func newMembers(w io.Writer) *members {
	return &members{Writer: zip.NewWriter(w), now: time.Now().UTC(), parts: map[string]string{}}
}

// add begins a part, and ends the one before it. Files are stored uncompressed, because most are compressed already.
func (m *members) add(name string) (io.Writer, error) {
	m.end()
	method := zip.Deflate
	if strings.HasPrefix(name, filesFolder) {
		method = zip.Store
	}
	part, err := m.CreateHeader(&zip.FileHeader{Name: name, Method: method, Modified: m.now})
	if err != nil {
		return nil, err
	}
	m.name, m.hash = name, sha256.New()
	return io.MultiWriter(part, m.hash), nil
}

func (m *members) end() {
	if m.hash != nil {
		m.parts[m.name] = hex.EncodeToString(m.hash.Sum(nil))
	}
	m.hash = nil
}

func (m *members) addJSON(name string, value any) error {
	file, err := m.add(name)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(file)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// lineWriter writes a part that consists of lines. It creates the part with the first line, so that no part is empty.
type lineWriter struct {
	members *members
	name    string
	file    io.Writer
}

func (l *lineWriter) write(line any) (err error) {
	if l.file == nil {
		if l.file, err = l.members.add(l.name); err != nil {
			return err
		}
	}
	encoder := json.NewEncoder(l.file)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(line)
}

// writeRaw writes a line that is JSON already.
func (l *lineWriter) writeRaw(line json.RawMessage) error { return l.write(line) }

// finish writes the manifest and ends the archive.
func (m *members) finish(version string) error {
	m.end()
	about := manifest{kind, format, version, m.now, maps.Clone(m.parts)}
	if err := m.addJSON(manifestName, about); err != nil {
		return err
	}
	return m.Close()
}

// limitOf returns the maximum unpacked size of a part in bytes; isKnown is false if archives have no such part.
func limitOf(name string) (most int64, isKnown bool) {
	extension, isReport := strings.CutPrefix(name, reportName)
	original, isDataset := strings.CutPrefix(name, datasetName)
	switch {
	case name == taskName:
		return maxHeader, true
	case name == itemsName:
		return maxItems, true
	case name == runsName, name == eventsName:
		return maxRuns, true
	case name == toolsName, name == assetsName, name == samplesName, name == pairsName:
		return maxLists, true
	case isReport && slices.Contains(Reports, extension):
		return maxRuns, true
	case isDataset && slices.Contains(dataset.Extensions, original):
		return maxItems, true // a file that is written from the questions is longer than an uploaded one
	case strings.HasPrefix(name, filesFolder) && len(name) > len(filesFolder):
		return maxFiles, true
	}
	return 0, false
}

// Reports are the formats of the reports in an archive.
var Reports = []string{"csv", "xlsx", "jsonl", "html"}

// checkParts compares the parts of an archive with the manifest: every part must be known, listed and unchanged, and
// every listed part must be there.
func (r *reader) checkParts(about manifest) error {
	total := int64(0)
	for _, one := range r.zip.File {
		if one.Name == manifestName {
			continue
		}
		_, isListed := about.Parts[one.Name]
		limit, isKnown := limitOf(one.Name)
		if !isListed || !isKnown {
			return &Error{File: shorten(one.Name), Problem: ProblemUnknown}
		}
		most := limit
		if strings.HasPrefix(one.Name, filesFolder) {
			most = limit - total
			total += int64(min(one.UncompressedSize64, maxFiles+1))
		}
		if one.UncompressedSize64 > uint64(max(most, 0)) {
			return &Error{File: shorten(one.Name), Problem: ProblemLarge, Args: map[string]any{"Max": limit >> 20}}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(about.Parts)) {
		if err := r.checkHash(name, about.Parts[name]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) checkHash(name, want string) error {
	most, _ := limitOf(name)
	file, err := r.open(name, most)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return &Error{File: shorten(name), Problem: ProblemChanged}
	}
	return nil
}
