package event

import (
	"cmp"
	"slices"
)

// Limits on the spans that are kept for a run.
const (
	// MaxSpans is the maximum number of spans, and MaxSpansBytes is the maximum size of all of them as JSON, in bytes.
	MaxSpans      = 1000
	MaxSpansBytes = 2 << 20
	// MaxSpanText limits the input and the output of a span, and MaxSpanName each of its other texts, in characters.
	MaxSpanText = 8000
	MaxSpanName = 200
)

// SpanKind says what an agent does in a span, such as calling a model or a tool.
type SpanKind string

// The kinds of spans.
const (
	SpanAgent     SpanKind = "agent"
	SpanModel     SpanKind = "model"
	SpanTool      SpanKind = "tool"
	SpanRetrieval SpanKind = "retrieval"
	SpanEmbedding SpanKind = "embedding"
	SpanChain     SpanKind = "chain"
	SpanOther     SpanKind = "other"
)

// SpanKinds lists all kinds of spans.
var SpanKinds = []SpanKind{SpanAgent, SpanModel, SpanTool, SpanRetrieval, SpanEmbedding, SpanChain, SpanOther}

// Span is a step of an agent's work on a call, as the agent itself measured it.
type Span struct {
	// ID and Parent are 16 hexadecimal digits. Parent is empty if the agent named none, and may be the id of a span that
	// is not stored, such as that of Wending's call to the agent.
	ID     string   `json:"id"`
	Parent string   `json:"parent,omitempty"`
	Name   string   `json:"name,omitempty"`
	Kind   SpanKind `json:"kind"`
	// StartNS is when the span began by the agent's clock, in nanoseconds since 1970 UTC; 0 means unknown. DurationNS is
	// nil if the span has no credible end.
	StartNS    int64  `json:"start_ns,omitempty"`
	DurationNS *int64 `json:"duration_ns,omitempty"`
	// Model is the model that answered; empty if the span names none. Token counts are nil if unknown.
	Model        string `json:"model,omitempty"`
	InputTokens  *int64 `json:"input_tokens,omitempty"`
	OutputTokens *int64 `json:"output_tokens,omitempty"`
	TotalTokens  *int64 `json:"total_tokens,omitempty"`
	// Input and Output are texts, often JSON. IsInputCut and IsOutputCut report that the end is missing.
	Input       string `json:"input,omitempty"`
	Output      string `json:"output,omitempty"`
	IsInputCut  bool   `json:"is_input_cut,omitempty"`
	IsOutputCut bool   `json:"is_output_cut,omitempty"`
	// IsFailed reports that the step failed, and Error is the reason if the agent gave one.
	IsFailed bool   `json:"is_failed,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Step is a span with its place in the tree of all spans of a run.
type Step struct {
	Span
	// Depth is 0 for steps without a known parent.
	Depth int
	// AtNS is the time from the start of the first step to the start of this one, in nanoseconds; nil if unknown.
	AtNS *int64
}

// Tree arranges spans as a tree, and returns it depth first: each span is followed by its children, in the order in
// which they began. Each span appears exactly once, even if it is its own ancestor.
func Tree(spans []Span) []Step {
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b Span) int {
		if (a.StartNS == 0) != (b.StartNS == 0) { // unknown times come last
			return cmp.Compare(b.StartNS, a.StartNS)
		}
		return cmp.Or(cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.ID, b.ID))
	})
	at := func(span Span) *int64 {
		if span.StartNS == 0 {
			return nil
		}
		after := span.StartNS - spans[0].StartNS
		return &after
	}
	known, children := map[string]bool{}, map[string][]Span{}
	for _, one := range spans {
		known[one.ID] = true
		children[one.Parent] = append(children[one.Parent], one)
	}
	steps, placed := make([]Step, 0, len(spans)), map[string]bool{}
	place := func(root Span) {
		for waiting := []Step{{root, 0, at(root)}}; len(waiting) > 0; {
			next := waiting[len(waiting)-1]
			waiting = waiting[:len(waiting)-1]
			if placed[next.ID] {
				continue
			}
			placed[next.ID] = true
			steps = append(steps, next)
			for _, child := range slices.Backward(children[next.ID]) {
				waiting = append(waiting, Step{child, next.Depth + 1, at(child)})
			}
		}
	}
	for _, one := range spans {
		if !known[one.Parent] {
			place(one)
		}
	}
	for _, one := range spans { // the remaining spans are in cycles or below them; each group starts at its earliest span
		if !placed[one.ID] {
			place(one)
		}
	}
	return steps
}
