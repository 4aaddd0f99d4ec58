// Package event defines the events that agents report during a call, in one vocabulary for all protocols, and a
// compact encoding for them.
package event

import (
	"encoding/json"

	"github.com/google/uuid"
)

// Type says what an event reports, and so which members of its Data are set.
type Type string

// The types. The first event of a run is TaskStarted, and the last event of a successful run is TaskCompleted.
const (
	TaskStarted    Type = "task_started"
	Text           Type = "text"
	Reasoning      Type = "reasoning"
	Node           Type = "node"
	Tool           Type = "tool"
	ProgressUpdate Type = "progress_update"
	ImagePreview   Type = "image_preview"
	Asset          Type = "asset"
	ErrorOccurred  Type = "error_occurred"
	Retry          Type = "retry"
	TaskCompleted  Type = "task_completed"
	// Other is an event that the vocabulary has no word for.
	Other Type = "other"
)

// Types lists all types, in the order of their codes in stored parts: new types are appended.
var Types = []Type{
	TaskStarted, Text, Reasoning, Node, Tool, ProgressUpdate, ImagePreview, Asset, ErrorOccurred, Retry,
	TaskCompleted, Other,
}

// IsLast reports whether the type is that of an attempt's last event.
func (t Type) IsLast() bool { return t == TaskCompleted || t == ErrorOccurred }

// NotStreamed is the name of the Other event that marks a call made without streaming because the agent does not
// stream.
const NotStreamed = "not_streamed"

// The states of nodes and tools.
const (
	Started    = "started"
	Generating = "generating"
	Completed  = "completed"
	Failed     = "failed"
)

// ToolStates lists all states of a tool.
var ToolStates = []string{Started, Generating, Completed, Failed}

// The kinds of assets.
const (
	Image = "image"
	Audio = "audio"
	Video = "video"
	File  = "file"
)

// Kinds lists all kinds of assets.
var Kinds = []string{Image, Audio, Video, File}

// Event is one event of a call.
type Event struct {
	// Seq numbers the events that one process records for a unit, from 1.
	Seq int `json:"seq"`
	// AtMS is when the event happened, in milliseconds since the call began; retries belong to the same call.
	AtMS int  `json:"at_ms"`
	Type Type `json:"type"`
	Data Data `json:"data"`
}

// Data is the content of an event. Which members are set depends on the event's type.
type Data struct {
	// Text is the next piece of the answer or the reasoning; with Replaces it replaces all earlier pieces.
	Text     string `json:"text,omitempty"`
	Replaces bool   `json:"replaces,omitempty"`
	// Name names a node, a tool or an Other event, ID distinguishes nodes or tools of the same name, Provider
	// names the system that runs a tool.
	Name     string `json:"name,omitempty"`
	ID       string `json:"id,omitempty"`
	Provider string `json:"provider,omitempty"`
	Status   string `json:"status,omitempty"`
	// Progress is in per cent, from 0 to 100.
	Progress *float64 `json:"progress,omitempty"`
	Message  string   `json:"message,omitempty"`
	// Code is an error code, or the status with which a call ended.
	Code string `json:"code,omitempty"`
	// Attempt numbers the attempts of a call, from 1; WaitMS is the wait between the last failure and this attempt, in
	// milliseconds.
	Attempt int `json:"attempt,omitempty"`
	WaitMS  int `json:"wait_ms,omitempty"`
	// Kind is the kind of an asset, a preview or a tool's result. URL is the address of an asset or a preview at the
	// agent; no page links to it.
	Kind      string `json:"kind,omitempty"`
	URL       string `json:"url,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Path      string `json:"path,omitempty"`
	// AssetID identifies the stored copy of an asset in requests for it.
	AssetID *uuid.UUID `json:"asset_id,omitempty"`
	// Input and Output belong to a tool, and Raw is the payload of an Other event. Each is JSON of at most MaxRaw bytes.
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Raw    json.RawMessage `json:"raw,omitempty"`
	// Dropped is how many of the run's events were not kept.
	Dropped int `json:"dropped,omitempty"`
	// Content is inline data of an asset or a preview, which is stored as a file and not with the events.
	Content []byte `json:"-"`
}

// MaxRaw is the maximum number of bytes of an agent's data that are kept with one event.
const MaxRaw = 4 << 10

// Sink receives the events of a call as they happen. Emit never blocks.
type Sink interface {
	Emit(kind Type, data Data)
}

// isText reports whether an event is nothing but a piece of text.
func (e Event) isText() bool { return (e.Type == Text || e.Type == Reasoning) && !e.Data.Replaces }
