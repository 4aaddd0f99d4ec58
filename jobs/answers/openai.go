package answers

import (
	"context"
	"encoding/json"
	"strings"
)

// openAILine is a line of a log of OpenAI Evals (oaieval), or an output item of hosted evals.
type openAILine struct {
	Spec     json.RawMessage `json:"spec"`
	Type     string          `json:"type"`
	SampleID json.RawMessage `json:"sample_id"`
	Data     openAIEvent     `json:"data"`
	At       string          `json:"created_at"`
	// Item is the input of an output item; if it is absent, Plain is. ItemID is the item's number.
	Item   json.RawMessage `json:"datasource_item"`
	Plain  json.RawMessage `json:"item"`
	ItemID json.Number     `json:"datasource_item_id"`
	Sample *openAISample   `json:"sample"`
}

type openAIEvent struct {
	Prompt   json.RawMessage `json:"prompt"`
	Sampled  json.RawMessage `json:"sampled"`
	Expected json.RawMessage `json:"expected"`
	Model    string          `json:"model"`
	Usage    openAIUsage     `json:"usage"`
	Error    json.RawMessage `json:"error"`
}

type openAIUsage struct {
	Prompt     json.Number `json:"prompt_tokens"`
	Completion json.Number `json:"completion_tokens"`
	Input      json.Number `json:"input_tokens"`
	Output     json.Number `json:"output_tokens"`
	Total      json.Number `json:"total_tokens"`
}

type openAISample struct {
	Input        json.RawMessage `json:"input"`
	Output       json.RawMessage `json:"output"`
	OutputText   *string         `json:"output_text"`
	Model        string          `json:"model"`
	FinishReason string          `json:"finish_reason"`
	Usage        openAIUsage     `json:"usage"`
	Error        json.RawMessage `json:"error"`
}

func (u openAIUsage) fill(run *Run) {
	run.InputTokens, run.OutputTokens = count(json.Number(firstText(u.Prompt.String(), u.Input.String()))),
		count(json.Number(firstText(u.Completion.String(), u.Output.String())))
	run.TotalTokens = count(u.Total)
}

// openAILog combines the events of a log, which are spread over its lines, by sample.
type openAILog struct {
	*builder
	model    string
	standard map[string]string
	// samples maps sample ids to the indexes of their questions.
	samples map[string]int
}

// readOpenAI reads a log of OpenAI Evals, where a sample is an item and each sampling of the sample is a run, or the
// output items of hosted evals, where each output item is a run.
func (b *builder) readOpenAI(ctx context.Context, content []byte) error {
	log := &openAILog{builder: b, standard: map[string]string{}, samples: map[string]int{}}
	err := eachObject(ctx, content, func(line int, text json.RawMessage) error {
		var one openAILine
		if !b.decode(line, text, &one) {
			return nil
		}
		return log.line(line, one)
	})
	for sample, index := range log.samples {
		if standard, isKnown := log.standard[sample]; isKnown && b.file.Items[index].StandardAnswer == "" {
			b.file.Items[index].StandardAnswer = standard
		}
	}
	return err
}

func (l *openAILog) line(line int, one openAILine) error {
	sample := clean(textOf(one.SampleID))
	switch {
	case one.Sample != nil:
		return l.outputItem(line, one)
	case len(one.Spec) > 0:
		var spec struct {
			CompletionFns []string `json:"completion_fns"`
			Model         string   `json:"model"`
		}
		decode(one.Spec, &spec)
		l.model = shorten(oneLine(firstText(strings.Join(spec.CompletionFns, ", "), spec.Model)), maxName-1)
	case one.Type == "sampling" && sample != "":
		return l.sampling(line, sample, one)
	case sample != "" && len(one.Data.Expected) > 0:
		if _, isKnown := l.standard[sample]; !isKnown {
			l.standard[sample] = strings.ReplaceAll(expectedText(one.Data.Expected), "\x00", "␀")
			return l.spend(l.standard[sample])
		}
	}
	return nil
}

// sampling adds a run for an event that records a call to the model, with its prompt and the sampled answer.
func (l *openAILog) sampling(line int, sample string, one openAILine) error {
	text, system := questionOf(one.Data.Prompt)
	index, ok, err := l.keyed(line, sample, question{id: sample, text: text, system: system})
	if err != nil || !ok {
		return err
	}
	l.samples[sample] = index
	run := Run{Status: Succeeded, CompletedAt: moment(one.At)}
	one.Data.Usage.fill(&run)
	var list []json.RawMessage
	answer := textOf(one.Data.Sampled)
	if json.Unmarshal(one.Data.Sampled, &list) == nil && len(list) > 0 { // only the first of several answers is used
		answer = textOf(list[0])
	}
	run.Answer = &answer
	if failure := textOf(one.Data.Error); failure != "" {
		run.Status, run.ErrorMessage, run.Answer = Failed, shorten(failure, maxMessage-1), nil
	}
	run.complete()
	model := shorten(oneLine(firstText(one.Data.Model, l.model)), maxName-1)
	if run.Variant, ok = l.variant(line, "model", model, Variant{Name: model, Model: model}); !ok {
		return nil
	}
	return l.add(line, "", index, run)
}

// outputItem adds the run in an output item of hosted evals.
func (l *openAILog) outputItem(line int, one openAILine) error {
	source := one.Item
	if len(source) == 0 {
		source = one.Plain
	}
	q := question{values: map[string]string{}}
	text, system := questionOf(one.Sample.Input)
	q.system = system
	for _, value := range membersOf(source) {
		switch strings.ToLower(value.name) {
		case "question":
			q.text = textOf(value.value)
		case "standard_answer", "expected", "ideal", "correct_label", "ground_truth", "reference_answer", "answer":
			q.standard = expectedText(value.value)
		case "question_id", "id":
			q.id = clean(textOf(value.value))
		default:
			q.names, q.values[value.name] = append(q.names, value.name), textOf(value.value)
		}
	}
	q.text = firstText(q.text, text, textOf(source))
	key := firstText(q.id, one.ItemID.String(), textOf(source))
	index, ok, err := l.keyed(line, key, q)
	if err != nil || !ok {
		return err
	}
	run := Run{Status: Succeeded, FinishReason: finish(one.Sample.FinishReason)}
	one.Sample.Usage.fill(&run)
	answer := one.Sample.answer()
	run.Answer = &answer
	if failure := errorText(one.Sample.Error); failure != "" {
		if run.Status, run.ErrorMessage = Failed, shorten(failure, maxMessage-1); answer == "" {
			run.Answer = nil
		}
	}
	run.complete()
	model := shorten(oneLine(one.Sample.Model), maxName-1)
	if run.Variant, ok = l.variant(line, "model", model, Variant{Name: model, Model: model}); !ok {
		return nil
	}
	return l.add(line, "", index, run)
}

func (s openAISample) answer() string {
	if s.OutputText != nil {
		return *s.OutputText
	}
	var messages []chatMessage
	if json.Unmarshal(s.Output, &messages) != nil {
		return textOf(s.Output)
	}
	var texts []string
	for _, message := range messages {
		texts = append(texts, contentOf(message.Content))
	}
	return strings.Join(texts, "\n")
}

// errorText returns the message of an error; empty if there is none.
func errorText(value json.RawMessage) string {
	var one struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	decode(value, &one)
	if one.Message+one.Code != "" {
		return firstText(one.Message, one.Code)
	}
	if members := membersOf(value); members != nil {
		return "" // an error without a message or code
	}
	return textOf(value)
}

// expectedText returns the expected answer; several are joined by line breaks.
func expectedText(value json.RawMessage) string {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return textOf(value)
	}
	texts := make([]string, len(list))
	for n, one := range list {
		texts[n] = textOf(one)
	}
	return strings.Join(texts, "\n")
}

// chatMessage is a message of a conversation.
type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// questionOf returns the question in an input, which is a text or a list of messages, and the system message. In a
// list, the question is the user's last message.
func questionOf(input json.RawMessage) (text string, system *string) {
	var messages []chatMessage
	if json.Unmarshal(input, &messages) != nil || len(messages) == 0 {
		return textOf(input), nil
	}
	for _, message := range messages {
		content := contentOf(message.Content)
		switch message.Role {
		case "system", "developer":
			if system == nil {
				system = given(content)
			}
		case "user":
			text = content
		}
	}
	if text == "" {
		text = contentOf(messages[len(messages)-1].Content)
	}
	return text, system
}

// contentOf returns the text of a message's content: a string, or a list of parts.
func contentOf(content json.RawMessage) string {
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil && !isMistyped(err) || parts == nil {
		return textOf(content)
	}
	var texts []string
	for _, part := range parts {
		if part.Text != nil && !strings.HasPrefix(part.Type, "reasoning") {
			texts = append(texts, *part.Text)
		}
	}
	return strings.Join(texts, "\n")
}
