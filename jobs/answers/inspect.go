package answers

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"wending/jobs/dataset"
)

const (
	inspectHeader = "header.json"
	// maxMemberBytes is the maximum size of one member of a log, maxLogBytes the maximum total size of the members that
	// are read, and maxMembersOfLog the maximum number of samples.
	maxMemberBytes  = 32 << 20
	maxLogBytes     = 256 << 20
	maxMembersOfLog = 50_000
)

// inspectLog is the header of a log of Inspect; a log in JSON also has its samples.
type inspectLog struct {
	Eval struct {
		Model string `json:"model"`
		Task  string `json:"task"`
	} `json:"eval"`
	Samples []json.RawMessage `json:"samples"`
}

// inspectSample is a sample of a log of Inspect: one epoch of a question.
type inspectSample struct {
	ID       json.RawMessage `json:"id"`
	Epoch    json.Number     `json:"epoch"`
	Input    json.RawMessage `json:"input"`
	Target   json.RawMessage `json:"target"`
	Metadata json.RawMessage `json:"metadata"`
	Output   struct {
		Model      string  `json:"model"`
		Completion *string `json:"completion"`
		Choices    []struct {
			Message struct {
				Content json.RawMessage `json:"content"`
			} `json:"message"`
			StopReason string `json:"stop_reason"`
		} `json:"choices"`
		Usage struct {
			Input     json.Number `json:"input_tokens"`
			Output    json.Number `json:"output_tokens"`
			Total     json.Number `json:"total_tokens"`
			Reasoning json.Number `json:"reasoning_tokens"`
		} `json:"usage"`
		Time  json.Number     `json:"time"`
		Error json.RawMessage `json:"error"`
	} `json:"output"`
	Error       json.RawMessage `json:"error"`
	Limit       json.RawMessage `json:"limit"`
	TotalTime   json.Number     `json:"total_time"`
	CompletedAt string          `json:"completed_at"`
}

// readInspect reads a log of Inspect: an item for each sample id, a run for each epoch.
func (b *builder) readInspect(ctx context.Context, content []byte) error {
	if isZIP(content) {
		return b.readArchive(ctx, content)
	}
	var log inspectLog
	if err := b.whole(withoutNaN(content), &log); err != nil {
		return err
	}
	for n, text := range log.Samples {
		if n%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := b.sample(n+1, text, log); err != nil {
			return err
		}
	}
	return nil
}

// readArchive reads a log that is a ZIP file.
func (b *builder) readArchive(ctx context.Context, content []byte) error {
	files, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return problem(dataset.CodeUnreadable, "damaged", "Extension", "eval")
	}
	reader := &logReader{left: maxLogBytes}
	var log inspectLog
	var samples []*zip.File
	for _, file := range files.File {
		switch {
		case file.Name == inspectHeader:
			text, err := reader.read(file)
			if err != nil {
				return err
			}
			decode(text, &log)
		case path.Dir(file.Name) == "samples" && strings.HasSuffix(file.Name, ".json"):
			samples = append(samples, file)
		}
	}
	if len(samples) > maxMembersOfLog {
		return problem(dataset.CodeTooManyRows, "answers_results", "Max", maxMembersOfLog)
	}
	for n, file := range samples {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		text, err := reader.read(file)
		if err != nil {
			return err
		}
		if err := b.sample(n+1, text, log); err != nil {
			return err
		}
	}
	return nil
}

// logReader reads members of a log. left is the number of bytes that it may still read in total.
type logReader struct{ left int64 }

func (r *logReader) read(file *zip.File) (json.RawMessage, error) {
	damaged := problem(dataset.CodeUnreadable, "damaged_part", "Extension", "eval", "Part", shorten(file.Name, 80))
	opened, err := file.Open()
	if err != nil {
		return nil, damaged
	}
	defer opened.Close() //nolint:errcheck // only read
	most := min(int64(maxMemberBytes), r.left)
	text, err := io.ReadAll(io.LimitReader(opened, most+1))
	switch {
	case int64(len(text)) > most:
		return nil, problem(dataset.CodeTooComplex, "complex_unzipped_mib", "Max", maxLogBytes>>20)
	case err != nil:
		return nil, damaged
	case !utf8.Valid(text):
		return nil, damaged
	}
	r.left -= int64(len(text))
	if text = withoutNaN(text); !json.Valid(text) {
		return nil, damaged
	}
	return text, nil
}

// withoutNaN replaces NaN and Infinity, which Python writes but JSON does not allow, with null.
func withoutNaN(text []byte) []byte {
	if !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Infinity")) {
		return text
	}
	clean, inString := make([]byte, 0, len(text)), false
	for n := 0; n < len(text); n++ {
		rest := text[n:]
		switch {
		case inString && text[n] == '\\' && len(rest) > 1:
			clean = append(clean, rest[:2]...)
			n++
			continue
		case text[n] == '"':
			inString = !inString
		case inString:
		case bytes.HasPrefix(rest, []byte("NaN")):
			clean, n = append(clean, "null"...), n+len("NaN")-1
			continue
		case bytes.HasPrefix(rest, []byte("-Infinity")):
			clean, n = append(clean, "null"...), n+len("-Infinity")-1
			continue
		case bytes.HasPrefix(rest, []byte("Infinity")):
			clean, n = append(clean, "null"...), n+len("Infinity")-1
			continue
		}
		clean = append(clean, text[n])
	}
	return clean
}

// sample adds one epoch of a question, as a run.
func (b *builder) sample(row int, text json.RawMessage, log inspectLog) error {
	var one inspectSample
	if !b.decode(row, text, &one) {
		return nil
	}
	q := question{id: clean(textOf(one.ID)), standard: expectedText(one.Target), values: map[string]string{}}
	q.text, q.system = questionOf(one.Input)
	for _, value := range membersOf(one.Metadata) {
		q.names, q.values[value.name] = append(q.names, value.name), textOf(value.value)
	}
	index, ok, err := b.keyed(row, firstText(q.id, q.text), q)
	if err != nil || !ok {
		return err
	}
	run := one.run()
	model := shorten(oneLine(firstText(log.Eval.Model, one.Output.Model)), maxName-1)
	if run.Variant, ok = b.variant(row, "model", model, Variant{Name: model, Model: model}); !ok {
		return nil
	}
	if epoch := count(one.Epoch); epoch != nil && *epoch > 0 {
		run.Index = *epoch
	}
	return b.add(row, "epoch", index, run)
}

// run converts a sample to a run, which has failed if the sample has an error or no answer.
func (s inspectSample) run() Run {
	run := Run{Status: Succeeded, InputTokens: count(s.Output.Usage.Input), OutputTokens: count(s.Output.Usage.Output),
		TotalTokens: count(s.Output.Usage.Total), ReasoningTokens: count(s.Output.Usage.Reasoning),
		CompletedAt: moment(s.CompletedAt)}
	if seconds, err := json.Number(firstText(s.Output.Time.String(), s.TotalTime.String())).Float64(); err == nil &&
		seconds >= 0 && seconds*1000 <= maxNumber {
		latency := int(math.Round(seconds * 1000))
		run.LatencyMS = &latency
	}
	if len(s.Output.Choices) > 0 {
		first := s.Output.Choices[0]
		answer := contentOf(first.Message.Content)
		run.Answer, run.FinishReason = &answer, finish(first.StopReason)
		run.Reasoning = reasoningOf(first.Message.Content)
	}
	if s.Output.Completion != nil && (run.Answer == nil || *run.Answer == "") {
		run.Answer = s.Output.Completion
	}
	if failure := firstText(errorText(s.Error), errorText(s.Output.Error)); failure != "" {
		run.Status, run.ErrorMessage = Failed, shorten(failure, maxMessage-1)
	} else if run.Answer == nil {
		run.Status, run.ErrorMessage = Failed, shorten(textOf(s.Limit), maxMessage-1)
	}
	if run.Status == Failed && deref(run.Answer) == "" {
		run.Answer = nil
	}
	run.complete()
	return run
}

// reasoningOf returns the reasoning in a message's content; nil if there is none.
func reasoningOf(content json.RawMessage) *string {
	var parts []struct {
		Type      string `json:"type"`
		Reasoning string `json:"reasoning"`
	}
	decode(content, &parts)
	var texts []string
	for _, part := range parts {
		if part.Type == "reasoning" {
			texts = append(texts, part.Reasoning)
		}
	}
	return given(strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "\n"))
}
