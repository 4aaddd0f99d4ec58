package form

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"wending/handlers/request"
)

// maxJSONBytes is the maximum size, in bytes, of a JSON form.
const maxJSONBytes = 4 << 20

// readJSON returns the members of the JSON object in a request's body as the fields of a form: strings as they are,
// numbers and booleans in JSON notation, objects as JSON, lists of strings joined by commas, and null as an empty text.
// A body that is null is an empty form.
func readJSON(w http.ResponseWriter, r *http.Request) (*Upload, error) {
	form := &Upload{Values: map[string]string{}, notTexts: map[string]bool{}, nulls: map[string]bool{}, IsJSON: true,
		leave: func() {}}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSONBytes))
	if err != nil {
		return nil, request.NewFault(request.CodeRequestTooLarge).WithCause(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, request.NewFault(request.CodeRequestInvalid).WithCause(err)
	}
	for name, member := range members {
		form.Values[name] = formValue(member)
		if form.Values[name] == "" && member[0] == '[' && !lists[name] { // an empty list must not pass as an empty text
			form.Values[name] = string(member)
		}
		if name == questionIDs && bytes.HasPrefix(bytes.TrimSpace(member), []byte("[")) {
			form.Values[name] = string(member)
		}
		if first := bytes.TrimSpace(member); first[0] != '"' && first[0] != 'n' {
			form.notTexts[name] = true
		} else if first[0] == 'n' {
			form.nulls[name] = true
		}
	}
	return form, nil
}

// formValue returns a member of a JSON object as the value of a form field, as readJSON describes.
func formValue(member json.RawMessage) string {
	member = bytes.TrimSpace(member)
	var one string
	if json.Unmarshal(member, &one) == nil {
		return one
	}
	var list []string
	if json.Unmarshal(member, &list) == nil {
		return strings.Join(list, ",")
	}
	return string(member) // null was unmarshaled into an empty text above
}

// lists are the fields that may be repeated, except questionIDs; their values are joined by commas.
var lists = map[string]bool{"prompts": true, "models": true, "agents": true, "evaluators": true, "channels": true,
	"retry_on": true, "columns": true, "events": true, "numbers": true}

// questionIDs is a field that may be repeated. Its value is a JSON list, because ids may contain commas.
const questionIDs = "question_ids"

// QuestionIDs returns the values of the field question_ids; a text that is not a list counts as one id. ok is false if
// there are none, one is empty, or the list does not consist of strings.
func (u *Upload) QuestionIDs() (ids []string, ok bool) {
	typed := u.Values[questionIDs]
	if !strings.HasPrefix(strings.TrimSpace(typed), "[") {
		return []string{typed}, typed != ""
	}
	if json.Unmarshal([]byte(typed), &ids) != nil {
		return nil, false
	}
	for n := range ids {
		ids[n] = request.StorableText(ids[n])
	}
	return ids, len(ids) > 0 && !slices.Contains(ids, "")
}

// set stores the value of a field. A field in lists, or questionIDs, keeps all its values; any other field keeps the
// last.
func (u *Upload) set(name, value string) {
	if before, isRepeated := u.QuestionIDs(); name == questionIDs && isRepeated {
		all, _ := json.Marshal(append(before, value)) // texts can always be encoded
		value = string(all)
	}
	if before, isRepeated := u.Values[name]; isRepeated && lists[name] && before != "" {
		value = before + "," + value
	}
	u.Values[name] = value
}

// List returns the values of a repeatable field (see lists), trimmed, without empty ones.
func (u *Upload) List(name string) (values []string) {
	for value := range strings.SplitSeq(u.Values[name], ",") {
		if value = strings.TrimSpace(value); value != "" {
			values = append(values, value)
		}
	}
	return values
}

// isNull reports whether a field of a JSON form was sent as null.
func (u *Upload) isNull(name string) bool { return u.nulls[name] }

// Has reports whether a field was sent.
func (u *Upload) Has(name string) bool {
	_, isThere := u.Values[name]
	return isThere
}
