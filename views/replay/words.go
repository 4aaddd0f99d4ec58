package replay

import (
	"fmt"
	"strings"

	"wending/jobs/event"
	"wending/views/text"
)

// Line is what the log says of one event, or of a text that came in pieces.
type Line struct {
	// AtMS is since the call's start.
	AtMS int
	// Type is the event's, Label its word, Text what it says.
	Type  event.Type
	Label string
	Text  string
}

// shownText is how many characters of a text in pieces the log shows, maxLines how many lines it has.
const (
	shownText = 400
	maxLines  = 1000
)

// linesOf writes events as a log: pieces of text that follow one another are one line, and of many lines the first and the last are shown.
func linesOf(locale text.Locale, events []event.Event) (lines []Line, left int) {
	var before event.Event
	var pieces strings.Builder
	flush := func() {
		if pieces.Len() > 0 {
			lines[len(lines)-1].Text = text.Cut(pieces.String(), shownText)
			pieces.Reset()
		}
	}
	for _, one := range events {
		isText := one.Type == event.Text || one.Type == event.Reasoning
		if isText && before.Type == one.Type && !one.Data.Replaces {
			pieces.WriteString(one.Data.Text)
			continue
		}
		flush()
		before = one
		label := locale.Text("event." + string(one.Type))
		if one.Type == event.Node || one.Type == event.Tool {
			label += " " + locale.Text("event.state."+stateOf(one.Data.Status))
		}
		lines = append(lines, Line{AtMS: one.AtMS, Type: one.Type, Label: label, Text: says(locale, one)})
		if isText {
			pieces.WriteString(one.Data.Text)
		}
	}
	flush()
	if left = len(lines) - maxLines; left > 0 {
		half := maxLines / 2
		lines = append(lines[:half:half], lines[len(lines)-half:]...)
	}
	return lines, max(left, 0)
}

func stateOf(status string) string {
	if status == "" {
		return event.Started
	}
	return status
}

// says is what an event of another type than text says, in one line.
func says(locale text.Locale, e event.Event) string {
	d := e.Data
	var parts []string
	add := func(part string) {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if d.Progress != nil {
		add(percent(*d.Progress))
	}
	switch e.Type {
	case event.Retry:
		add(locale.Text("event.retry.text", "Attempt", d.Attempt, "Seconds", fmt.Sprintf("%.1f", float64(d.WaitMS)/1000)))
	case event.ErrorOccurred:
		add(d.Code)
	case event.Asset, event.ImagePreview:
		add(d.Path)
	}
	if e.Type == event.Other && d.Name == event.NotStreamed {
		add(locale.Text("task.notstreamed"))
	} else {
		add(d.Name)
	}
	add(d.Message)
	add(text.Cut(string(d.Input), shownText))
	add(text.Cut(string(d.Output), shownText))
	add(text.Cut(string(d.Raw), shownText))
	if d.Dropped > 0 {
		add(locale.Text("event.dropped", "Count", d.Dropped))
	}
	return strings.Join(parts, " · ")
}

func percent(progress float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", progress), ".0") + "%"
}

// seconds writes milliseconds as seconds.
func seconds(ms int) string { return fmt.Sprintf("%.2f s", float64(ms)/1000) }

// perSecond is how many tokens came in a second once the first had come; empty if it is not known.
func perSecond(track Track) string {
	run := track.Run
	if run == nil || run.AnswerTokens == nil || run.LatencyMS == nil || run.FirstMS == nil || *run.LatencyMS <= *run.FirstMS {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(*run.AnswerTokens)*1000/float64(*run.LatencyMS-*run.FirstMS))
}
