// Package observe reports the events of a call, in the vocabulary of package event, while the agent produces its
// answer. It never decides what the answer is.
package observe

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode"

	"wending/db/event"
	"wending/jobs/agent/wire"
)

// Watcher follows one attempt of a call. It implements protocol.Tap.
type Watcher struct {
	sink event.Sink
	read func(*Watcher, string, wire.Value)
	// mask redacts the request's secrets.
	mask func(string) string
	// made holds the URLs and content hashes of the files and previews so far; assets and previews count them.
	made     map[string]bool
	assets   int
	previews int
	// tools maps the ids of tool calls to the tools' names.
	tools map[string]string
	// calls holds the tool calls whose input is still arriving, keyed by the protocol's id for them.
	calls map[string]*call
	// stage is the last state or node that was reported, because some protocols repeat it.
	stage string
	// events counts the events of agents that use their own event names; step identifies the current step of an
	// agent that reports no progress.
	events int
	step   string
	// polled is the last status of an accepted job.
	polled string
	// countsToOne reports that the agent reports progress as a fraction of 1.
	countsToOne bool
}

// call is a tool call whose input arrives in pieces.
type call struct {
	id, name string
	input    strings.Builder
}

// The maximum number of files, and of previews, that are reported for one attempt.
const (
	maxAssets   = 200
	maxPreviews = 500
)

// New returns a watcher of an answer in the named protocol.
func New(protocol string, sink event.Sink, mask func(string) string) *Watcher {
	read := readers[protocol]
	if read == nil {
		read = (*Watcher).custom
	}
	return &Watcher{sink: sink, read: read, mask: mask, made: map[string]bool{}, tools: map[string]string{},
		calls: map[string]*call{}}
}

// Text receives the next piece of the answer.
func (w *Watcher) Text(piece []byte) { w.sink.Emit(event.Text, event.Data{Text: string(piece)}) }

// Reasoning receives the next piece of the reasoning.
func (w *Watcher) Reasoning(piece []byte) {
	w.sink.Emit(event.Reasoning, event.Data{Text: string(piece)})
}

// Rewrite receives a text that replaces the whole answer so far.
func (w *Watcher) Rewrite(text []byte) {
	w.sink.Emit(event.Text, event.Data{Text: string(text), Replaces: true})
}

// Value receives a value of the body after the reader of the answer has processed it.
func (w *Watcher) Value(e wire.Event) {
	if e.IsDone {
		return
	}
	name := e.Name
	for _, member := range []string{"event", "type"} {
		if text := e.Value.TextOf(member); text != "" && name == "" {
			name = text
		}
	}
	w.read(w, name, e.Value)
}

// maxName is the maximum length of a name in bytes.
const maxName = 200

// emit reports an event, with its texts cut and its progress clamped to 0–100.
func (w *Watcher) emit(kind event.Type, data event.Data) {
	for _, text := range []*string{&data.Name, &data.ID, &data.Provider, &data.Kind, &data.MediaType} {
		*text = wire.Cut(*text, maxName)
	}
	data.Message = wire.Cut(w.mask(data.Message), event.MaxRaw)
	if data.Progress != nil {
		progress := min(max(*data.Progress, 0), 100)
		data.Progress = &progress
	}
	w.sink.Emit(kind, data)
}

func (w *Watcher) node(name, id, status string) {
	if name != "" {
		w.emit(event.Node, event.Data{Name: name, ID: id, Status: status})
	}
}

// other reports an event for which the vocabulary has no type.
func (w *Watcher) other(name string, v wire.Value) {
	if name != "" {
		w.emit(event.Other, event.Data{Name: name, Raw: w.raw(v)})
	}
}

// raw returns a value as JSON or, if it is too long or not valid JSON, its beginning as a JSON string.
func (w *Watcher) raw(v wire.Value) json.RawMessage {
	if v.Kind == wire.Null {
		return nil
	}
	source := string(v.Text)
	var text []byte
	if v.Kind != wire.String && len(source) <= event.MaxRaw && json.Valid(v.Text) {
		text = []byte(w.mask(source))
		if json.Valid(text) {
			return text
		}
	}
	text, err := json.Marshal(w.mask(wire.Cut(source, event.MaxRaw)))
	if err != nil {
		return nil // encoding a string cannot fail
	}
	return text
}

// jsonOf returns a text as JSON: unchanged if it already is JSON, otherwise as a string.
func (w *Watcher) jsonOf(text string) json.RawMessage {
	if v, isJSON := wire.Parse([]byte(text)); isJSON && v.Kind != wire.String {
		return w.raw(v)
	}
	if text == "" {
		return nil
	}
	return w.raw(wire.Value{Kind: wire.String, Text: []byte(text)})
}

// begin records a tool call and reports its start.
func (w *Watcher) begin(key, id, name string) {
	if w.calls[key] != nil || len(w.calls) >= maxAssets || name == "" {
		return
	}
	w.calls[key] = &call{id: id, name: name}
	w.emit(event.Tool, event.Data{Name: name, ID: id, Status: event.Started})
}

// more appends a piece to a tool's input.
func (w *Watcher) more(key, piece string) {
	if known := w.calls[key]; known != nil && known.input.Len() <= event.MaxRaw {
		known.input.WriteString(piece)
	}
}

// end reports the end of a tool call, with its status and, if it is known, its output.
func (w *Watcher) end(key, status string, output json.RawMessage) {
	known := w.calls[key]
	if known == nil {
		return
	}
	delete(w.calls, key)
	w.emit(event.Tool, event.Data{Name: known.name, ID: known.id, Status: status, Input: w.jsonOf(known.input.String()),
		Output: output})
}

// file reports a file, or a preview if isPreview is set. data.URL is its address or a data URL, data.Content its inline
// bytes. A file is reported only once; a preview at the same address is reported once per step.
func (w *Watcher) file(isPreview bool, data event.Data) {
	kind := event.Asset
	if isPreview {
		kind = event.ImagePreview
	}
	if mediaType, content, isInline := inline(data.URL); isInline {
		data.URL, data.Content = "", content
		if data.MediaType == "" {
			data.MediaType = mediaType
		}
	}
	isWeb := strings.HasPrefix(data.URL, "http://") || strings.HasPrefix(data.URL, "https://")
	if !isWeb && len(data.Content) == 0 || len(data.URL) > 8<<10 {
		return
	}
	count, most := &w.assets, maxAssets
	if isPreview {
		count, most = &w.previews, maxPreviews
	}
	key := string(kind) + " " + data.URL
	if data.URL == "" { // an inline file, which every poll of a status may repeat
		sum := sha256.Sum256(data.Content)
		key += string(sum[:])
	} else if isPreview { // an agent may write the picture of each step to the same address
		key += " " + w.stepOf(data.Progress)
	}
	if w.made[key] || *count >= most {
		return
	}
	w.made[key] = true
	*count++
	if data.Kind == "" {
		data.Kind = kindOf(data.MediaType, data.URL)
	}
	data.Path = w.path(isPreview, data, *count)
	w.emit(kind, data)
}

// stepOf returns a text that differs between the steps of a call: the progress if it is known, otherwise w.step.
func (w *Watcher) stepOf(progress *float64) string {
	if progress != nil {
		return strconv.FormatFloat(*progress, 'f', -1, 64)
	}
	return w.step
}

// path returns the name of a file within its run: the agent's name for it, the last part of its URL, or a generated
// one. The name is a relative path that does not leave the run's folder.
func (w *Watcher) path(isPreview bool, data event.Data, number int) string {
	if isPreview {
		return "previews/" + strconv.Itoa(number) + extensionOf(data.MediaType)
	}
	given := data.Path
	if given == "" {
		given = data.Name
	}
	if address, err := url.Parse(data.URL); given == "" && err == nil {
		given = path.Base(address.Path)
	}
	if clean := CleanPath(given); clean != "" {
		return clean
	}
	return data.Kind + "-" + strconv.Itoa(number) + extensionOf(data.MediaType)
}

// maxPath is the maximum length of a path in bytes.
const maxPath = 200

// CleanPath returns a path that stays within its folder and that can be displayed and written on any system; empty if
// nothing is left of it.
func CleanPath(given string) string {
	clean := cleanPath(given)
	extension := path.Ext(clean)
	if len(clean) > maxPath && len(extension) < 12 {
		clean = wire.Cut(strings.TrimSuffix(clean, extension), maxPath-len(extension)) + extension
	}
	return wire.Cut(clean, maxPath)
}

// IsPath reports whether a path is one that CleanPath may return, possibly with a number appended to it.
func IsPath(given string) bool {
	return given != "" && len(given) <= maxPath+20 && cleanPath(given) == given
}

func cleanPath(given string) string {
	given = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune(`:*?"<>|`, r) ||
			r == unicode.ReplacementChar {
			return -1
		}
		if r == '\\' {
			return '/'
		}
		return r
	}, strings.ToValidUTF8(given, ""))
	return strings.TrimPrefix(path.Clean("/"+given), "/")
}

// inline decodes a data URL; isInline is false if the address is not one.
func inline(address string) (mediaType string, content []byte, isInline bool) {
	rest, isData := strings.CutPrefix(address, "data:")
	head, body, hasBody := strings.Cut(rest, ",")
	if !isData || !hasBody {
		return "", nil, false
	}
	mediaType, _, _ = strings.Cut(head, ";")
	if strings.HasSuffix(head, ";base64") {
		content = fromBase64(body)
	} else if text, err := url.PathUnescape(body); err == nil {
		content = []byte(text)
	}
	return mediaType, content, true
}

// fromBase64 decodes base64 in the standard or the URL alphabet, with or without padding; nil if the text is not
// base64.
func fromBase64(text string) []byte {
	text = strings.TrimRight(strings.TrimSpace(text), "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if content, err := encoding.DecodeString(text); err == nil {
			return content
		}
	}
	return nil
}
