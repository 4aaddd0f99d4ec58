package observe

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"wending/db/event"
	"wending/jobs/agent/wire"
)

// firstText returns the first text among the members of v with these names.
func firstText(v wire.Value, names ...string) string {
	for _, name := range names {
		if text := v.TextOf(name); text != "" {
			return text
		}
	}
	return ""
}

// firstOf returns the first member of v that has one of these names.
func firstOf(v wire.Value, names ...string) wire.Value {
	for _, name := range names {
		if member, ok := v.Get(name); ok && member.Kind != wire.Null {
			return member
		}
	}
	return wire.Value{}
}

// numberOf returns v as a number, even if it is a text such as "50%"; nil if v is not a number.
func numberOf(v wire.Value) *float64 {
	if v.Kind != wire.Number && v.Kind != wire.String {
		return nil
	}
	number, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(string(v.Text)), "%"), 64)
	if err != nil || math.IsNaN(number) || number < -1e9 || number > 1e15 {
		return nil
	}
	return &number
}

// percentOf returns progress in per cent; nil if v holds none. An agent that has reported a value such as 0.5 counts
// up to 1, so 1 means complete from then on.
func (w *Watcher) percentOf(v wire.Value) *float64 {
	for _, name := range []string{"percent", "progress", "percentage"} {
		if number := numberOf(v.At(name)); number != nil {
			w.countsToOne = w.countsToOne || *number > 0 && *number < 1
			if w.countsToOne && *number <= 1 {
				*number *= 100
			}
			return number
		}
	}
	done, total := numberOf(firstOf(v, "completed", "current", "done")), numberOf(v.At("total"))
	if done == nil || total == nil || *total <= 0 {
		return nil
	}
	percent := min(max(100**done / *total, 0), 100) // also limits the infinite result of dividing by almost zero
	return &percent
}

// statusOf maps the protocols' words for the status of a node or a tool to the statuses of package event.
func statusOf(word string) string {
	switch word = strings.ToLower(word); {
	case word == "":
		return ""
	case hasAny(word, "fail", "error", "exception", "cancel", "abort", "reject", "stopped"):
		return event.Failed
	case hasAny(word, "finish", "complete", "succe", "done", "end", "result", "response", "output"):
		return event.Completed
	case hasAny(word, "progress", "generat", "running", "delta", "chunk", "update", "search", "interpret"):
		return event.Generating
	}
	return event.Started
}

func hasAny(text string, parts ...string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// custom reads events of agents with their own event names: Wending's own protocol, and the custom events of
// other protocols.
func (w *Watcher) custom(name string, v wire.Value) {
	data := v
	if inner := v.At("data"); inner.Kind == wire.Object {
		data = inner
	}
	if named := v.TextOf("event"); named != "" {
		name = named
	}
	w.events++
	w.step = "event " + strconv.Itoa(w.events)
	word := strings.ToLower(name)
	switch {
	case word == "":
		w.files(data)
	case word == "llm_chunk", word == "reasoning_chunk", word == "reasoning_start", word == "reasoning_end",
		word == "ping",
		word == "heartbeat", word == "message":
	case word == "node_started", word == "node_finished", word == "node_completed":
		w.node(firstText(data, "title", "name", "node_name", "node_id", "id"), firstText(data, "node_id", "id"),
			statusOf(firstWord(data.TextOf("status"), word)))
		w.files(data)
	case hasAny(word, "preview", "partial_image"):
		w.preview(data)
	case hasAny(word, "tool") || data.TextOf("toolId") != "" || data.TextOf("tool_id") != "":
		w.tool(word, data)
	case hasAny(word, "progress"):
		if percent, message := w.percentOf(data), firstText(data, "message", "text", "stage", "status"); percent != nil ||
			message != "" {
			w.emit(event.ProgressUpdate, event.Data{Progress: percent, Message: message, ID: firstText(data, "id", "task_id")})
		}
		w.preview(data)
	case word == "asset", word == "assets", word == "file", word == "files", word == "image", word == "video",
		word == "audio",
		word == "message_file", word == "artifact":
		if word == event.Image || word == event.Video || word == event.Audio {
			w.fileOf(data, word)
		} else {
			w.fileOf(data, "")
		}
		w.files(data)
	// A failure is reported when the call ends.
	case word == "error", strings.HasSuffix(word, "_error"), strings.HasSuffix(word, "_failed"):
	default:
		w.other(name, v)
	}
}

func firstWord(words ...string) string {
	for _, word := range words {
		if word != "" {
			return word
		}
	}
	return ""
}

// tool reports a tool call from an event in the format of spec/003.
func (w *Watcher) tool(word string, data wire.Value) {
	name, id := firstText(data, "tool", "tool_name", "toolName", "toolId", "tool_id", "name"),
		firstText(data, "id", "call_id", "tool_call_id", "toolCallId", "task_id")
	switch {
	case name == "":
		name = firstWord(w.tools[id], id, "tool")
	case id != "" && len(w.tools) < maxAssets:
		w.tools[id] = name
	}
	status := statusOf(firstWord(data.TextOf("status"), word))
	told := event.Data{
		Name: name, ID: id, Provider: data.TextOf("provider"), Status: status,
		Progress: w.percentOf(data), Message: firstText(data, "message", "error_message"),
		Kind:   firstText(data, "asset_type", "assetType"),
		Input:  w.raw(firstOf(data, "input", "arguments", "args", "tool_input")),
		Output: w.raw(firstOf(data, "output", "result", "observation")),
	}
	if failure := firstText(data, "error"); failure != "" {
		told.Message, told.Status = failure, event.Failed
	}
	w.emit(event.Tool, told)
	w.preview(data)
	w.files(data)
	w.files(data.At("output"))
}

// preview reports the preview that a value holds.
func (w *Watcher) preview(data wire.Value) {
	for _, within := range []wire.Value{data, data.At("data")} {
		if address := firstText(within, "preview_url", "previewUrl", "preview", "image_url", "imageUrl",
			"partial_image_url"); address != "" {
			w.file(true, event.Data{Kind: event.Image, URL: address, Progress: w.percentOf(data)})
			return
		}
		if text := firstText(within, "partial_image_b64", "preview_b64", "b64_json", "base64"); text != "" {
			w.file(true, event.Data{Kind: event.Image, Content: fromBase64(text), Progress: w.percentOf(data)})
			return
		}
	}
}

// files reports the files that a value lists.
func (w *Watcher) files(v wire.Value) {
	for _, within := range []wire.Value{v, v.At("output")} {
		for _, name := range []string{"assets", "files", "images", "videos", "audios", "artifacts"} {
			list := within.At(name)
			for _, item := range list.Items {
				if item.Kind == wire.String {
					item = wire.Value{Kind: wire.Object, Fields: []wire.Field{{Name: "url", Value: item}}}
				}
				w.fileOf(item, strings.TrimSuffix(name, "s"))
			}
		}
		for _, one := range namedFiles {
			if address := firstText(within, one.names...); address != "" {
				w.file(false, event.Data{Kind: one.kind, URL: address})
			}
		}
	}
}

// namedFiles lists, by kind of file, the names of members that hold the address of one file: the address alone might
// not reveal the kind. Images are not listed, because they count as previews until the call is done.
var namedFiles = []struct {
	kind  string
	names []string
}{
	{event.Video, []string{"video_url", "videoUrl"}},
	{event.Audio, []string{"audio_url", "audioUrl"}},
}

// fileOf reports the file that an object describes; group is the name of its list.
func (w *Watcher) fileOf(v wire.Value, group string) {
	if inner := v.At("file"); inner.Kind == wire.Object {
		v = inner
	}
	data := event.Data{
		URL:       firstText(v, "url", "uri", "image_url", "imageUrl", "file_url", "remote_url", "href"),
		MediaType: firstText(v, "media_type", "mediaType", "mime_type", "mimeType", "contentType"),
		Path:      v.TextOf("path"), Name: firstText(v, "filename", "file_name", "name"), ID: v.TextOf("id"),
	}
	if text := firstText(v, "b64_json", "base64", "bytes", "raw"); text != "" && data.URL == "" {
		data.Content = fromBase64(text)
	}
	switch kind := strings.ToLower(v.TextOf("type")); {
	case data.MediaType != "":
	case kind == event.Image, kind == event.Audio, kind == event.Video:
		data.Kind = kind
	case group == event.Image, group == event.Audio, group == event.Video:
		data.Kind = group
	}
	if data.URL != "" || len(data.Content) > 0 {
		w.file(false, data)
	}
}

// Polled reads the status of an accepted job and reports it if it has changed.
func (w *Watcher) Polled(state string, v wire.Value) {
	data := v
	if inner := v.At("data"); inner.Kind == wire.Object {
		data = inner
	}
	if state != w.stage {
		w.stage = state
		w.node(state, "", statusOf(state))
	}
	percent, message := w.percentOf(data), firstText(data, "message", "stage")
	told := message
	if percent != nil {
		told += strconv.FormatFloat(*percent, 'f', -1, 64)
	}
	w.step = told
	if told != w.polled && told != "" {
		w.polled = told
		w.emit(event.ProgressUpdate, event.Data{Progress: percent, Message: message})
	}
	w.preview(data)
	w.files(data)
	result := firstOf(data, "result", "output")
	w.files(result)
	if address := firstText(result, "image_url", "imageUrl"); address != "" { // outside a result, it would be a preview
		w.file(false, event.Data{Kind: event.Image, URL: address})
	}
}

// stringJSON returns a text as a JSON string.
func stringJSON(text string) json.RawMessage {
	encoded, err := json.Marshal(wire.Cut(text, event.MaxRaw))
	if err != nil {
		return nil // encoding a string cannot fail
	}
	return encoded
}
