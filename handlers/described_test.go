package handlers_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"wending/handlers"
)

// described is the OpenAPI document of the API, which is compared with every response in the tests.
type described struct {
	operations []*operation
	mu         sync.Mutex
	compiler   *jsonschema.Compiler
}

// operation is one method of one path.
type operation struct {
	id, method, path string
	segments         []string
	parameters       []struct{ Name, In string }
	requestBody      struct {
		Content map[string]struct{ Schema struct{ Ref string } }
	}
	responses map[string]struct {
		Description string
		Content     map[string]json.RawMessage
	}
}

// theDocument is the same on every site, so it is read once.
var theDocument struct {
	once sync.Once
	described
}

func documentOf(t testing.TB, handler *handlers.Server) *described {
	t.Helper()
	theDocument.once.Do(func() {
		d := &theDocument.described
		text, err := handler.Document()
		require.NoError(t, err)
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		d.compiler = jsonschema.NewCompiler()
		d.compiler.AssertFormat()
		require.NoError(t, d.compiler.AddResource("openapi.json", document))
		var read struct {
			Paths map[string]map[string]struct {
				OperationID string
				Parameters  []struct{ Name, In string }
				RequestBody struct {
					Content map[string]struct{ Schema struct{ Ref string } }
				}
				Responses map[string]struct {
					Description string
					Content     map[string]json.RawMessage
				}
			}
		}
		require.NoError(t, json.Unmarshal(text, &read))
		for path, methods := range read.Paths {
			for method, one := range methods {
				d.operations = append(d.operations, &operation{
					id: one.OperationID, method: method, path: path, segments: strings.Split(path, "/"), parameters: one.Parameters,
					requestBody: one.RequestBody, responses: one.Responses,
				})
			}
		}
		slices.SortFunc(d.operations, func(a, b *operation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	})
	return &theDocument.described
}

// find returns the operation of a request; nil if the document has none.
func (d *described) find(method, path string) (found *operation) {
	segments, literal := strings.Split(path, "/"), -1
	for _, one := range d.operations {
		if !strings.EqualFold(one.method, method) || len(one.segments) != len(segments) {
			continue
		}
		same := 0
		fits := true
		for n, segment := range one.segments {
			switch {
			case segment == segments[n]:
				same++
			case !strings.HasPrefix(segment, "{"):
				fits = false
			}
		}
		if fits && same > literal { // so that /tasks/import comes before /tasks/{id}
			found, literal = one, same
		}
	}
	return found
}

// pointerNames escapes a name for a JSON pointer within a URL.
var pointerNames = strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D", "*", "%2A")

// schema returns the schema at a position in the document.
func (d *described) schema(names ...string) (*jsonschema.Schema, error) {
	pointer := "openapi.json#"
	for _, name := range names {
		pointer += "/" + pointerNames.Replace(name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.compiler.Compile(pointer)
}

// answer is the response to a request.
type answer struct {
	method, path string
	status       int
	header       http.Header
	body         []byte
	// isCut reports that only a part of the body was kept.
	isCut bool
}

// check returns the operation that a response belongs to, and an error if the response differs from the document.
func (d *described) check(a answer) (*operation, error) {
	kind, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	found := d.find(a.method, a.path)
	if found == nil || a.status == http.StatusMethodNotAllowed {
		if a.status < 400 || a.method == http.MethodHead {
			return nil, nil //nolint:nilnil // a redirect, or no body
		}
		if kind != "application/json" {
			return nil, fmt.Errorf("an error of no operation is %s", kind)
		}
		return nil, d.fits(a, "components", "schemas", "Failure")
	}
	status := strconv.Itoa(a.status)
	response, isDescribed := found.responses[status]
	if !isDescribed {
		return found, fmt.Errorf("the status is not described")
	}
	if len(response.Content) == 0 {
		if len(a.body) > 0 {
			return found, fmt.Errorf("there is a body")
		}
		return found, nil
	}
	key := kind
	if _, isThere := response.Content[key]; !isThere {
		key, _, _ = strings.Cut(kind, "/")
		key += "/*"
	}
	if _, isThere := response.Content[key]; !isThere {
		key = "*/*"
	}
	if _, isThere := response.Content[key]; !isThere {
		return found, fmt.Errorf("the content type %q is not described", kind)
	}
	place := []string{"paths", found.path, found.method, "responses", status, "content", key, "schema"}
	switch {
	case kind == "text/event-stream":
		for _, data := range regexp.MustCompile(`(?m)^data: (.*)\n\n`).FindAllSubmatch(a.body, -1) {
			if err := d.fits(answer{body: data[1]}, place...); err != nil {
				return found, err
			}
		}
		return found, nil
	case kind != "application/json":
		return found, nil
	}
	if err := d.fits(a, place...); err != nil {
		return found, err
	}
	var failure struct{ Code string }
	if a.status >= 400 && json.Unmarshal(a.body, &failure) == nil &&
		!regexp.MustCompile(`\b`+failure.Code+`\b`).MatchString(response.Description) {
		return found, fmt.Errorf("the code %s is not described", failure.Code)
	}
	return found, nil
}

// fits returns an error that describes how a body differs from a schema.
func (d *described) fits(a answer, place ...string) error {
	if a.isCut {
		return nil
	}
	schema, err := d.schema(place...)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// witness compares every response of a site's API with the document, regardless of the test that made the request.
type witness struct {
	http.Handler
	t        testing.TB
	document *described
	mu       sync.Mutex
	seen     map[string]bool
}

// witnessed returns a site's handler with its witness.
func (s *site) witnessed(t testing.TB, handler *handlers.Server) http.Handler {
	t.Helper()
	if _, isBenchmark := t.(*testing.B); isBenchmark {
		return handler
	}
	s.witness = &witness{Handler: handler, t: t, document: documentOf(t, handler), seen: map[string]bool{}}
	return s.witness
}

// maxWitnessed is how much of a response is kept.
const maxWitnessed = 4 << 20

// ServeHTTP implements http.Handler.
func (w *witness) ServeHTTP(writer http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/api/openapi.json" {
		w.Handler.ServeHTTP(writer, r)
		return
	}
	kept := &keptResponse{ResponseWriter: writer}
	kept.method, kept.path, kept.status = r.Method, r.URL.EscapedPath(), http.StatusOK
	query := r.URL.RawQuery
	w.Handler.ServeHTTP(kept, r)
	if r.Context().Err() != nil { // the client has disconnected, so the response may not be complete
		return
	}
	kept.header = writer.Header()
	if kept.header.Get("Content-Encoding") == "gzip" && !kept.isCut {
		kept.body = unzipped(kept.body)
	}
	found, err := w.document.check(kept.answer)
	if err != nil {
		w.t.Errorf("%s %s?%s answers %d, which differs from the document: %v\n%.2000s", kept.method, kept.path, query,
			kept.status, err, kept.body)
	}
	if found != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen[found.id+" "+strconv.Itoa(kept.status)] = true
	}
}

// has reports whether an operation has returned a response with a status.
func (w *witness) has(id, status string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[id+" "+status]
}

func unzipped(packed []byte) []byte {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return packed
	}
	text, _ := io.ReadAll(reader)
	return text
}

// keptResponse keeps what is written through it.
type keptResponse struct {
	http.ResponseWriter
	answer
}

func (k *keptResponse) WriteHeader(status int) {
	k.status = status
	k.ResponseWriter.WriteHeader(status)
}

func (k *keptResponse) Write(text []byte) (int, error) {
	if room := maxWitnessed - len(k.body); len(text) > room {
		k.isCut = true
	} else {
		k.body = append(k.body, text...)
	}
	return k.ResponseWriter.Write(text)
}

// Unwrap is for http.ResponseController.
func (k *keptResponse) Unwrap() http.ResponseWriter { return k.ResponseWriter }
