package answers

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"wending/jobs/dataset"
)

// maxResults is the maximum number of results in a file that an evaluation tool wrote.
const maxResults = 200_000

// promptfooFile is the file that promptfoo eval -o results.json writes (version 3 of its results).
type promptfooFile struct {
	Results struct {
		Prompts []promptfooPrompt `json:"prompts"`
		Results []json.RawMessage `json:"results"`
	} `json:"results"`
}

// promptfooPrompt is a prompt with a provider.
type promptfooPrompt struct {
	Raw      string          `json:"raw"`
	Label    string          `json:"label"`
	Provider json.RawMessage `json:"provider"`
}

type promptfooResult struct {
	PromptIdx json.Number `json:"promptIdx"`
	Prompt    struct {
		Raw   string `json:"raw"`
		Label string `json:"label"`
	} `json:"prompt"`
	Provider json.RawMessage `json:"provider"`
	TestCase json.RawMessage `json:"testCase"`
	Vars     json.RawMessage `json:"vars"`
	Response struct {
		Output       json.RawMessage `json:"output"`
		Error        json.RawMessage `json:"error"`
		IsRefusal    bool            `json:"isRefusal"`
		FinishReason string          `json:"finishReason"`
		TokenUsage   struct {
			Total      json.Number `json:"total"`
			Prompt     json.Number `json:"prompt"`
			Completion json.Number `json:"completion"`
		} `json:"tokenUsage"`
		Cost json.Number `json:"cost"`
	} `json:"response"`
	Error     json.RawMessage `json:"error"`
	LatencyMS json.Number     `json:"latencyMs"`
	Cost      json.Number     `json:"cost"`
	// FailureReason is 1 if an assertion failed, 2 if the call failed. If it is 1, Error is the assertion's message.
	FailureReason json.Number `json:"failureReason"`
}

type promptfooTest struct {
	Description string          `json:"description"`
	Vars        json.RawMessage `json:"vars"`
	Assert      []struct {
		Type  string          `json:"type"`
		Value json.RawMessage `json:"value"`
	} `json:"assert"`
}

// expecting are the types of assertions whose value is the expected answer.
var expecting = []string{"equals", "similar", "factuality", "model-graded-factuality", "levenshtein", "rouge-n", "bleu",
	"meteor"}

// readPromptfoo reads the results of promptfoo: an item for each test, a variant for each prompt with a provider, a run
// for each repeat. promptfoo numbers repeats like tests, so results of equal tests are taken as repeats.
func (b *builder) readPromptfoo(ctx context.Context, content []byte) error {
	var file promptfooFile
	if err := b.whole(content, &file); err != nil {
		return err
	}
	if len(file.Results.Results) > maxResults {
		return problem(dataset.CodeTooManyRows, "answers_results", "Max", maxResults)
	}
	seen := map[string]bool{}
	for _, prompt := range file.Results.Prompts {
		seen[firstText(prompt.Label, prompt.Raw)] = true
	}
	for _, text := range file.Results.Results {
		if len(file.Results.Prompts) == 0 { // a file without its list of prompts
			var one promptfooResult
			decode(text, &one)
			seen[one.PromptIdx.String()+" "+one.Prompt.Label] = true
		}
	}
	for n, text := range file.Results.Results {
		if n%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		var one promptfooResult
		if !b.decode(n+1, text, &one) {
			continue
		}
		if err := b.promptfoo(n+1, one, len(seen) > 1); err != nil {
			return err
		}
	}
	return nil
}

// promptfoo adds the run of one result.
func (b *builder) promptfoo(row int, one promptfooResult, hasPrompts bool) error {
	var test promptfooTest
	decode(one.TestCase, &test)
	q := test.question(one)
	index, ok, err := b.keyed(row, testKey(one), q)
	if err != nil || !ok {
		return err
	}
	provider := providerOf(one.Provider)
	name := provider
	if hasPrompts {
		name = shorten(oneLine(firstText(one.Prompt.Label, one.Prompt.Raw)), 80) + " × " + provider
	}
	run := one.run()
	variant := Variant{Name: shorten(name, maxName-1), Model: shorten(provider, maxName-1), Currency: "USD"}
	// the text of a prompt does not identify it, because results have it with the test's variables inserted
	key := strings.Join([]string{one.PromptIdx.String(), one.Prompt.Label, provider}, "\x00")
	if run.Variant, ok = b.variant(row, "provider", key, variant); !ok {
		return nil
	}
	return b.add(row, "", index, run)
}

// run converts a result to a run. A failed assertion does not make the run a failure.
func (r promptfooResult) run() Run {
	run := Run{Status: Succeeded, FinishReason: finish(r.Response.FinishReason), LatencyMS: count(r.LatencyMS),
		InputTokens: count(r.Response.TokenUsage.Prompt), OutputTokens: count(r.Response.TokenUsage.Completion),
		TotalTokens: count(r.Response.TokenUsage.Total)}
	if cost := amount(firstText(r.Response.Cost.String(), r.Cost.String())); cost != nil {
		run.Cost = cost
	}
	output := bytes.TrimSpace(r.Response.Output)
	if len(output) > 0 && string(output) != "null" {
		answer := textOf(output)
		run.Answer = &answer
	}
	failure := firstText(textOf(r.Response.Error), textOf(r.Error))
	if r.FailureReason == "2" || run.Answer == nil {
		run.Status, run.ErrorMessage = Failed, shorten(failure, maxMessage-1)
	}
	run.complete()
	return run
}

// question returns the question of a test: the variable named question, or the only variable, or the rendered prompt.
func (t promptfooTest) question(r promptfooResult) question {
	variables := membersOf(r.Vars)
	if variables == nil {
		variables = membersOf(t.Vars)
	}
	q := question{values: map[string]string{}}
	for _, one := range variables {
		text := textOf(one.value)
		switch one.name {
		case dataset.ColumnQuestion:
			q.text = text
		case dataset.ColumnAnswer:
			q.standard = text
		case dataset.ColumnID:
			q.id = clean(text)
		default:
			q.names, q.values[one.name] = append(q.names, one.name), text
		}
	}
	if strings.TrimSpace(q.text) == "" && len(q.names) == 1 {
		q.text = q.values[q.names[0]]
		q.names, q.values = nil, map[string]string{}
	}
	if strings.TrimSpace(q.text) == "" {
		q.text = firstText(r.Prompt.Raw, t.Description)
	}
	for _, one := range t.Assert {
		if q.standard == "" && slices.Contains(expecting, one.Type) {
			q.standard = textOf(one.Value)
		}
	}
	return q
}

// testKey identifies the test of a result by its variables, assertions and description.
func testKey(r promptfooResult) string {
	var test struct {
		Vars        any    `json:"vars"`
		Assert      any    `json:"assert"`
		Description string `json:"description"`
	}
	decode(r.TestCase, &test)
	if test.Vars == nil {
		decode(r.Vars, &test.Vars)
	}
	key, err := json.Marshal(test) // equal tests have equal keys, because members are sorted
	if err != nil {
		return string(r.TestCase)
	}
	return string(key)
}

// providerOf returns the label of a provider or, if it has none, its id.
func providerOf(value json.RawMessage) string {
	var named struct {
		ID    string `json:"id"`
		Label string `json:"label"`
	}
	if value = bytes.TrimSpace(value); len(value) > 0 && value[0] == '{' {
		decode(value, &named)
		return oneLine(firstText(named.Label, named.ID))
	}
	return oneLine(textOf(value))
}

// keyed is like item, but for a question that the tool identifies by a key: equal questions with different keys are
// different questions.
func (b *builder) keyed(row int, key string, q question) (index int, ok bool, err error) {
	index, isKnown := b.places["key "+key]
	if isKnown {
		return index, true, nil
	}
	before := len(b.file.Items)
	if q.id == "" { // otherwise, item would return an earlier question with the same text
		delete(b.places, "text "+q.text)
	}
	if index, ok, err = b.item(row, q); ok && len(b.file.Items) > before {
		b.places["key "+key] = index
	}
	return index, ok, err
}

// firstText returns the first text that is not blank.
func firstText(texts ...string) string {
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			return text
		}
	}
	return ""
}

// oneLine replaces control characters, such as line ends, with spaces.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7F }), " ")
}

// count reads a count from an evaluation tool's file; nil if it is missing or out of range.
func count(number json.Number) *int {
	if number == "" {
		return nil
	}
	return whole(number.String())
}

// finishes maps other tools' finish reasons to Wending's.
var finishes = map[string]string{"stop": "stop", "end_turn": "stop", "stop_sequence": "stop", "length": "length",
	"max_tokens": "length", "model_length": "length", "content_filter": "content_filter", "refusal": "refusal",
	"tool_calls": "tool_calls", "tool_use": "tool_calls", "function_call": "tool_calls"}

func finish(reason string) string { return finishes[strings.ToLower(reason)] }

// Finishes lists the finish reasons that a run may have.
func Finishes() []string { return slices.Compact(slices.Sorted(maps.Values(finishes))) }

// whole reads a file that is one JSON object.
func (b *builder) whole(content []byte, into any) error {
	content = bytes.TrimPrefix(content, []byte("\uFEFF"))
	err := json.Unmarshal(content, into)
	if isMistyped(err) {
		err = nil
	}
	if err != nil {
		return problem(dataset.CodeUnreadable, "answers_json")
	}
	return nil
}
