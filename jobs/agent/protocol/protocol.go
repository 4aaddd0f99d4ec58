package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"wending/jobs/agent/wire"
)

// Default is the name of the protocol of spec/004.
const Default = "default"

// Protocol is a way of talking to an agent or a model.
type Protocol struct {
	// Name is the protocol's name in the API and the database, and Label the name shown to people.
	Name, Label string
	// path is appended to the base URL of a model provider, such as exampleBase; if path is empty, model providers
	// cannot use the protocol.
	path, exampleBase string
	// paths are fragments of the protocol's usual URLs, by which it is recognised.
	paths []string
	// body returns the members of the request's JSON object; headers are sent with every request.
	body    func(Request) map[string]any
	headers map[string]string
	// keyHeader is the header for a provider's API key; empty means Authorization: Bearer.
	keyHeader string
	// namesContext reports that the body has a field for the row's context; otherwise the context precedes the
	// question.
	namesContext bool
	// takesSession reports that the caller names the conversation: the agent identifies it by the session id from the
	// first turn on.
	takesSession bool
	// query returns the parameters to add to the URL's query; nil means none.
	query func(Request) url.Values
	// reader returns a reader for an answer.
	reader func(*transcript) reader
}

// All lists all protocols in the order in which they are offered.
var All = []Protocol{
	{Name: Default, Label: "Wending", body: defaultBody, namesContext: true, reader: func(t *transcript) reader {
		return &defaultReader{transcript: t}
	}},
	openAI, responses, anthropic, ollama,
	difyChat, difyWorkflow, coze, cozeWorkflow, fastGPT, ragflowChat, ragflowAgent,
	langServe, langGraph, a2a, agUI,
}

// Of returns the protocol with this name; isKnown is false if there is none.
func Of(name string) (protocol Protocol, isKnown bool) {
	n := slices.IndexFunc(All, func(p Protocol) bool { return p.Name == name })
	if n < 0 {
		return Protocol{}, false
	}
	return All[n], true
}

// LabelOf returns the label of the protocol with this name, or the name itself if it is unknown.
func LabelOf(name string) string {
	if one, isKnown := Of(name); isKnown {
		return one.Label
	}
	return name
}

// IsOfModels reports whether model providers can use the protocol.
func (p Protocol) IsOfModels() bool { return p.path != "" }

// ExampleBase returns an example of a base URL from a provider's documents; empty if providers cannot use the
// protocol.
func (p Protocol) ExampleBase() string { return p.exampleBase }

// NamesContext reports whether the body has a separate field for the row's context.
func (p Protocol) NamesContext() bool { return p.namesContext }

// ModelURL returns the address of a model at a provider's base URL. If the base already ends with the version that
// the path begins with, the version is not repeated.
func (p Protocol) ModelURL(base string) string {
	base, path := strings.TrimSuffix(base, "/"), p.path
	if version, rest, isVersioned := strings.Cut(strings.TrimPrefix(path, "/"), "/"); isVersioned && version == "v1" &&
		strings.HasSuffix(base, "/v1") {
		path = "/" + rest
	}
	return base + path
}

// SetKey puts a provider's API key into the protocol's header, unless the headers already have one.
func (p Protocol) SetKey(headers map[string]string, key string) {
	name, value := p.keyHeader, key
	if name == "" {
		name, value = "Authorization", "Bearer "+key
	}
	for given := range headers {
		if http.CanonicalHeaderKey(given) == http.CanonicalHeaderKey(name) {
			return
		}
	}
	headers[name] = value
}

// Usage is the token usage of a call, as reported by the agent; nil means not reported.
type Usage struct {
	Input, Output, Reasoning, Total *int
}

// set reads the numbers that v holds under these names; empty names are skipped.
func (u *Usage) set(v wire.Value, input, output, total string) {
	for name, into := range map[string]**int{input: &u.Input, output: &u.Output, total: &u.Total} {
		if number := numberOf(v, name); number != nil {
			*into = number
		}
	}
}

// setLangChain reads the usage of a LangChain message.
func (u *Usage) setLangChain(message wire.Value) {
	u.set(message.At("usage_metadata"), "input_tokens", "output_tokens", "total_tokens")
	if reasoning := numberOf(message.At("usage_metadata", "output_token_details"), "reasoning"); reasoning != nil {
		u.Reasoning = reasoning
	}
}

// sum returns the usage with the total computed if none was reported.
func (u Usage) sum() Usage {
	if u.Total == nil && u.Input != nil && u.Output != nil {
		total := *u.Input + *u.Output
		u.Total = &total
	}
	return u
}

// maxTokens exceeds the usage of any call: a larger number is not a token count.
const maxTokens = 1_000_000_000

// numberOf returns the count that v holds under a name; nil if it holds none.
func numberOf(v wire.Value, name string) *int {
	member, _ := v.Get(name)
	if name == "" || member.Kind != wire.Number {
		return nil
	}
	var number float64
	if json.Unmarshal(member.Text, &number) != nil || number < 0 || number > maxTokens {
		return nil
	}
	count := int(number)
	return &count
}

// User returns the user's message: the context, if there is any, and the question as one text.
func (q Request) User() string {
	if stringOf(q.UserContext) == "" {
		return q.Question
	}
	return *q.UserContext + "\n\n" + q.Question
}

// system returns the system prompt; empty means that there is none.
func (q Request) system() string { return stringOf(q.SystemPrompt) }

// whole returns the system prompt, the context and the question as one text, for protocols without a field for the
// prompt.
func (q Request) whole() string {
	if q.system() == "" {
		return q.User()
	}
	return q.system() + "\n\n" + q.User()
}

// messages returns the messages for chat protocols, given the names that they use for the roles user and assistant.
func (q Request) messages(user, assistant string) (messages []map[string]string) {
	if q.system() != "" {
		messages = append(messages, map[string]string{"role": "system", "content": q.system()})
	}
	for _, said := range q.History {
		role := user
		if said.Role == RoleAssistant {
			role = assistant
		}
		messages = append(messages, map[string]string{"role": role, "content": said.Content})
	}
	return append(messages, map[string]string{"role": user, "content": q.User()})
}

// chat returns the messages under the role names that most protocols use.
func (q Request) chat() []map[string]string { return q.messages(RoleUser, RoleAssistant) }

// The roles of messages.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// turns returns the conversation as one text, for agents that accept only one text.
func (q Request) turns() string {
	var text strings.Builder
	for _, said := range q.History {
		text.WriteString(said.Role + ": " + said.Content + "\n\n")
	}
	return text.String() + q.whole()
}

// said returns the history as JSON.
func (q Request) said() string {
	text, err := json.Marshal(append([]Message{}, q.History...))
	if err != nil {
		return "[]" // encoding texts cannot fail
	}
	return string(text)
}

// inputs returns the texts other than the question, for platforms with named inputs.
func (q Request) inputs() map[string]string {
	inputs := map[string]string{}
	for name, text := range map[string]string{"system_prompt": q.system(), "user_context": stringOf(q.UserContext)} {
		if text != "" {
			inputs[name] = text
		}
	}
	return inputs
}

// conversation returns the agent's own id for the conversation; outside a conversation, it returns single.
func (q Request) conversation(single string) string {
	if q.IsTurn {
		return q.ConversationID
	}
	return single
}

// statelessInputs returns the inputs for platforms that do not keep conversations.
func (q Request) statelessInputs() map[string]string {
	inputs := q.inputs()
	if q.IsTurn {
		inputs["history"], inputs["session_id"] = q.said(), q.SessionID
	}
	return inputs
}

func stringOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// withModel adds the model's name to a body if there is one.
func (q Request) withModel(body map[string]any) map[string]any {
	if q.Model != "" {
		body["model"] = q.Model
	}
	return body
}

// Body returns the JSON to send: the protocol's body, or the template that replaces it, with the extra payload
// merged in.
func (q Request) Body() ([]byte, error) {
	protocol, isKnown := Of(q.Protocol)
	if !isKnown {
		return nil, fmt.Errorf("unknown protocol: %s", q.Protocol)
	}
	if q.IsTooLong {
		return nil, errTooLong
	}
	var members map[string]any
	if len(q.Template) > 0 {
		var template any
		decoder := json.NewDecoder(bytes.NewReader(q.Template))
		decoder.UseNumber()
		if err := decoder.Decode(&template); err != nil {
			return nil, err
		}
		room := MaxRendered
		rendered, isObject := render(template, q.values(), &room).(map[string]any)
		if room < 0 {
			return nil, errTooLong
		}
		if !isObject {
			return nil, errors.New("the template is not a JSON object")
		}
		members = rendered
	} else {
		members = protocol.body(q)
	}
	if len(q.ExtraPayload) > 0 {
		var extra map[string]json.RawMessage
		if err := json.Unmarshal(q.ExtraPayload, &extra); err != nil {
			return nil, err
		}
		for name, member := range extra {
			members[name] = member
		}
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(members)
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), err
}

// values returns the values available to a template: the row's variables, overridden by the request's texts.
func (q Request) values() map[string]string {
	values := map[string]string{}
	maps.Copy(values, q.Variables)
	values["question"], values["standard_answer"], values["session_id"], values["model"] = q.Question, q.StandardAnswer,
		q.SessionID, q.Model
	values["system_prompt"], values["user_context"] = q.system(), stringOf(q.UserContext)
	values["history"], values["conversation_id"] = q.said(), q.ConversationID
	return values
}

// errTooLong means that a rendered template would be longer than any agent accepts.
var errTooLong = fmt.Errorf("the prompt is longer than %d bytes once its variables are filled in", MaxRendered)

// render puts values into the strings of a JSON value. room is the number of bytes that the strings may still use; it
// becomes negative if they are too long.
func render(template any, values map[string]string, room *int) any {
	switch v := template.(type) {
	case string:
		if *room < 0 {
			return v
		}
		if v == "{{history}}" { // a placeholder alone becomes the list itself
			*room -= len(values["history"])
			return json.RawMessage(values["history"])
		}
		rendered := Render(v, values)
		*room -= len(rendered)
		return rendered
	case []any:
		for n := range v {
			v[n] = render(v[n], values, room)
		}
	case map[string]any:
		for name := range v {
			v[name] = render(v[name], values, room)
		}
	}
	return template
}

// strict is the state shared by all protocols except the default one: the answer is the text up to the protocol's own
// end marker.
type strict struct {
	*transcript
	// end is the name of the protocol's end marker in error messages.
	end string
	// isOwn reports that a value of the protocol has arrived.
	isOwn bool
	// hasEnded reports that the protocol's end marker has arrived: pieces of text that follow it are ignored.
	hasEnded bool
	// final is the answer if the protocol sends one as a whole; nil means that the pieces are the answer.
	final []byte
	// isBody reports that the first value was not part of a stream.
	isBody bool
}

// text adds a piece to the answer.
func (s *strict) text(piece []byte) {
	s.isOwn = true
	if !s.hasEnded {
		s.add(&s.chunks, piece)
	}
}

// think adds a piece to the reasoning.
func (s *strict) think(piece []byte) {
	s.isOwn = true
	if !s.hasEnded {
		s.add(&s.transcript.reasoning, piece)
	}
}

// replace makes text the whole answer, in place of the pieces so far.
func (s *strict) replace(text []byte) {
	s.isOwn = true
	if !s.hasEnded {
		s.final = append([]byte{}, s.transcript.whole(text)...)
		s.tellWhole(s.final)
	}
}

// replaceReasoning makes text the whole reasoning, in place of the pieces so far.
func (s *strict) replaceReasoning(text []byte) {
	if !s.hasEnded {
		s.transcript.reasoning = s.transcript.whole(text)
	}
}

// done handles [DONE], which ends the protocol's stream once a value of the protocol has arrived.
func (s *strict) done() {
	if s.isOwn {
		s.close()
	}
}

// close records that the protocol's end marker has arrived.
func (s *strict) close() {
	s.isOwn, s.hasEnded = true, true
	s.transcript.ended()
}

// body reports whether a value may be the whole answer in one piece, which it is unless something else follows.
func (s *strict) body(e wire.Event) bool {
	isBody := !e.IsPrefixed && s.Values == 1
	s.isBody = s.isBody || isBody
	return isBody
}

func (s *strict) answer(broken error) Answer {
	text := s.chunks
	if s.final != nil {
		text = s.final
	}
	if s.hasEnded && s.isBody && !s.hasFailed && (s.Values > 1 || len(s.Excerpt) > 0) {
		return Failure(CodeParse, "The response holds more than one value: "+Excerpt(s.Begin()))
	}
	if s.hasEnded && !s.TooLarge && !s.hasFailed {
		if text == nil {
			text = []byte{}
		}
		return Answer{Status: Succeeded, Text: text}
	}
	if answer, isCut := s.cutShort(text, broken); isCut {
		return answer
	}
	if s.isOwn {
		return s.withoutEnd(text, s.end)
	}
	return s.unread()
}

// contentText returns the text in the content of a chat message, which is a string or a list of parts with or without
// text.
func contentText(v wire.Value) []byte {
	if v.Kind == wire.String {
		return v.Text
	}
	var all []byte
	for _, part := range v.Items {
		switch kind := part.TextOf("type"); kind {
		case "", "text", "output_text":
			if text, ok := part.Get("text"); ok && text.Kind == wire.String {
				all = append(all, text.Text...)
			}
		}
	}
	return all
}

// bytesOf returns the string that v holds under a name; nil if it holds none.
func bytesOf(v wire.Value, name string) []byte {
	member, _ := v.Get(name)
	if member.Kind != wire.String {
		return nil
	}
	return member.Text
}

// defaultBody returns the body of spec/004. Turns of a conversation also have the history and the session id.
func defaultBody(q Request) map[string]any {
	body := map[string]any{
		"question": q.Question, "standard_answer": q.StandardAnswer,
		"system_prompt": q.SystemPrompt, "user_context": q.UserContext, "stream": q.Stream,
	}
	if q.IsTurn {
		body["history"], body["session_id"] = append([]Message{}, q.History...), q.SessionID
	}
	return body
}

// TakesSession reports whether the agent identifies a conversation by its session id from the first turn on.
func (p Protocol) TakesSession() bool { return p.takesSession }

// Address returns the URL to call: the request's URL with the protocol's query parameters added.
func (p Protocol) Address(q Request) (*url.URL, error) {
	address, err := url.Parse(q.URL)
	if err != nil || p.query == nil {
		return address, err
	}
	query := address.Query()
	for name, values := range p.query(q) {
		query[name] = values
	}
	address.RawQuery = query.Encode()
	return address, nil
}

// Headers returns the headers of every request of the protocol.
func (p Protocol) Headers() map[string]string { return p.headers }

// Suggests returns how strongly a URL with this path suggests the protocol; 0 means not at all.
func (p Protocol) Suggests(path string) (length int) {
	for _, mark := range p.paths {
		if strings.Contains(path+"/", mark) {
			length = max(length, len(mark))
		}
	}
	return length
}

// Read reads the body of an answer. onEnd is called when the protocol's end marker has arrived; data after that is
// still read for a short time. reason describes the error that broke the connection, if any. tap may be nil.
func (p Protocol) Read(body io.Reader, start time.Time, onEnd func(), reason func(error) string, tap Tap) Answer {
	t := newTranscript(p)
	t.onEnd, t.tap = onEnd, tap
	var broken error
	if err := t.Read(body, t); err != nil {
		broken = errors.New(reason(err))
	}
	answer := t.reader.answer(broken)
	answer.IsSilent = broken != nil && t.Length() == 0
	answer.Reasoning = t.reasoning
	if answer.Status == Succeeded {
		t.tellWhole(answer.Text)
	}
	if tap != nil && !t.toldReasoning && len(t.reasoning) > 0 {
		tap.Reasoning(t.reasoning)
	}
	answer = t.concluded(answer)
	answer.Usage, answer.ConversationID, answer.AgentTraceID = t.usage.sum(), t.conversationID, t.traceID
	if answer.Status != Succeeded {
		answer.LooksLike = t.looksLike
	}
	if !t.endedAt.IsZero() {
		answer.Latency = t.endedAt.Sub(start)
	}
	if !t.firstAt.IsZero() && t.Values > 1 {
		answer.FirstToken = t.firstAt.Sub(start)
	}
	return answer
}

// FailureIn returns the message of a failure that a body reports, in any protocol; empty if it reports none.
func FailureIn(body io.Reader) string {
	t := newTranscript(All[0])
	if t.Read(body, t) != nil || !t.hasFailed {
		return ""
	}
	return t.failure
}
