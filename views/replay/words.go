package replay

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"wending/db/engine"
	"wending/db/event"
	"wending/views/text"
)

// Line is a log line about one event, or about a text that arrived in pieces.
type Line struct {
	// AtMS is the time since the call's start.
	AtMS int
	// Type is the event's type, Label is its name, and Text is its content.
	Type  event.Type
	Label string
	Text  string
}

// shownText is the maximum number of characters that the log shows of a text that arrives in pieces, and maxLines is
// the maximum number of lines in the log.
const (
	shownText = 400
	maxLines  = 1000
)

// Tail is the state from which the log of a call in progress continues.
type Tail struct {
	// At is the position of the last event that is shown.
	At engine.EventPosition `query:"-"`
	// Within is the type of the text in the last line; empty if that line is not a text. Room is the number of characters
	// that the line can still take; it is negative once the line has been cut.
	Within event.Type `query:"within"`
	Room   int        `query:"room"`
	// Lines, Events and Tools are the numbers of lines, events and tool calls in the log so far, including lines left
	// out.
	Lines  int `query:"lines"`
	Events int `query:"events"`
	Tools  int `query:"tools"`
}

// log holds what the events after a tail add to a log.
type log struct {
	// Continued is appended to the text of the last line that was shown.
	Continued string
	// Lines are the new lines. Left is the number of lines that are left out in the middle.
	Lines []Line
	Left  int
	// Tail is where the log continues after the new lines.
	Tail Tail
}

// logOf writes events as a log that continues after a tail: consecutive pieces of text form one line, and if there
// are too many lines, only the first and the last are kept.
func logOf(locale text.Locale, events []event.Event, tail Tail) (made log) {
	var pieces strings.Builder
	flush := func() {
		if pieces.Len() == 0 || tail.Room < 0 {
			pieces.Reset()
			return
		}
		shown, isCut := text.Head(pieces.String(), tail.Room)
		if tail.Room -= utf8.RuneCountInString(shown); isCut {
			shown, tail.Room = shown+"…", -1
		}
		if len(made.Lines) > 0 {
			made.Lines[len(made.Lines)-1].Text = shown
		} else {
			made.Continued = shown
		}
		pieces.Reset()
	}
	for _, one := range events {
		isText := one.Type == event.Text || one.Type == event.Reasoning
		if isText && tail.Within == one.Type && !one.Data.Replaces {
			pieces.WriteString(one.Data.Text)
			continue
		}
		flush()
		label := locale.Text("event." + string(one.Type))
		if one.Type == event.Node || one.Type == event.Tool {
			label += " " + locale.Text("event.state."+stateOf(one.Data.Status))
		}
		made.Lines = append(made.Lines, Line{AtMS: one.AtMS, Type: one.Type, Label: label, Text: says(locale, one)})
		tail.Lines++
		tail.Within = ""
		if isText {
			tail.Within, tail.Room = one.Type, shownText
			pieces.WriteString(one.Data.Text)
		}
	}
	flush()
	tail.Events += len(events)
	made.Tail = tail
	if left := len(made.Lines) - maxLines; left > 0 {
		half := maxLines / 2
		made.Lines, made.Left = append(made.Lines[:half:half], made.Lines[len(made.Lines)-half:]...), left
	}
	return made
}

func stateOf(status string) string {
	if status == "" {
		return event.Started
	}
	return status
}

// says returns the text of an event that is not a piece of text, on one line.
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

// seconds formats milliseconds as seconds.
func seconds(ms int) string { return fmt.Sprintf("%.2f s", float64(ms)/1000) }

// perSecond returns how many tokens arrived per second after the first one; empty if unknown.
func perSecond(track Track) string {
	run := track.Run
	if run == nil || run.AnswerTokens == nil || run.LatencyMS == nil || run.FirstMS == nil ||
		*run.LatencyMS <= *run.FirstMS {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(*run.AnswerTokens)*1000/float64(*run.LatencyMS-*run.FirstMS))
}
