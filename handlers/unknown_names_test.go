package handlers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wending/db"
)

// bodySchema is the part of a schema in the OpenAPI document that names members.
type bodySchema struct {
	Ref        string `json:"$ref"`
	Format     string
	Properties map[string]*bodySchema
	Items      *bodySchema
	AnyOf      []*bodySchema
}

// apiDocument is the part of the OpenAPI document that names what requests may contain.
type apiDocument struct {
	Paths map[string]map[string]struct {
		Parameters  []struct{ Name, In string }
		RequestBody struct {
			Content map[string]struct{ Schema *bodySchema }
		}
	}
	Components struct{ Schemas map[string]*bodySchema }
}

// resolve follows references, and the first alternative of a nullable schema.
func (d *apiDocument) resolve(schema *bodySchema) *bodySchema {
	for schema != nil && (schema.Ref != "" || len(schema.AnyOf) > 0) {
		if schema.Ref == "" {
			schema = schema.AnyOf[0]
			continue
		}
		schema = d.Components.Schemas[schema.Ref[strings.LastIndex(schema.Ref, "/")+1:]]
	}
	return schema
}

// misspelt returns bodies for a schema, each with one unknown member: at the top, or in an object or list of objects
// below. The keys are the members' paths as messages name them. Objects with arbitrary members are left out.
func (d *apiDocument) misspelt(schema *bodySchema, depth int) map[string]object {
	bodies := map[string]object{"surprise": {"surprise": 1}}
	for name, property := range schema.Properties {
		property, place := d.resolve(property), name
		wrap := func(inner object) any { return inner }
		if property != nil && property.Items != nil {
			property, place = d.resolve(property.Items), name+"[0]"
			wrap = func(inner object) any { return []object{inner} }
		}
		if property == nil || len(property.Properties) == 0 || depth > 3 {
			continue
		}
		for path, inner := range d.misspelt(property, depth+1) {
			bodies[place+"."+path] = object{name: wrap(inner)}
		}
	}
	return bodies
}

// nameTest is a site with the tools to send names that an operation does not accept.
type nameTest struct {
	*site
	t *testing.T
}

// refuses requires that a request is refused because of name, and that both the message and the error's details contain
// it. It returns the message.
func (n nameTest) refuses(method, path, contentType string, body []byte, name string) (message string) {
	n.t.Helper()
	// a stream of events that is not refused would not end
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, strings.ToUpper(method), n.URL+path, bytes.NewReader(body))
	require.NoError(n.t, err)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	answer := n.do(n.t, request)
	var refused struct {
		Code, Message string
		Details       []struct{ Column string }
	}
	_ = json.Unmarshal(answer.body, &refused)
	column := ""
	if len(refused.Details) > 0 {
		column = refused.Details[0].Column
	}
	assert.Equal(n.t, []any{422, "PARAMETER_INVALID", name}, []any{answer.StatusCode, refused.Code, column},
		"%s %s %s %s: %.300s", method, path, contentType, body, answer.body)
	assert.Contains(n.t, refused.Message, name)
	return refused.Message
}

// formOf returns a form whose fields are the members of a body; objects and lists are JSON.
func (n nameTest) formOf(body object) (contentType string, form []byte) {
	var written bytes.Buffer
	writer := multipart.NewWriter(&written)
	for name, value := range body {
		text, err := json.Marshal(value)
		require.NoError(n.t, err)
		require.NoError(n.t, writer.WriteField(name, string(text)))
	}
	require.NoError(n.t, writer.Close())
	return writer.FormDataContentType(), written.Bytes()
}

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// Every operation of the document refuses unknown query parameters, and unknown fields of JSON bodies and forms, by
// their names and with the nearest known one.
func TestEveryOperationRefusesUnknownNames(t *testing.T) {
	t.Parallel()
	n := nameTest{newSite(t, false), t}
	task := n.create(t, "http://127.0.0.1:1/", map[string]string{"start": "false"})
	var document apiDocument
	n.get(t, "/api/openapi.json").into(t, &document)
	require.Greater(t, len(document.Paths), 80)
	for template, methods := range document.Paths {
		path := placeholder.ReplaceAllStringFunc(template, func(name string) string {
			switch name {
			case "{task_id}":
				return task
			case "{question_id}":
				return "q1"
			case "{id}", "{launch_id}", "{user_id}", "{delivery_id}", "{batch_id}":
				return uuid.NewString()
			}
			return "1"
		})
		for method, one := range methods {
			n.refuses(method, path+"?surprise=1", "", nil, "surprise")
			for _, parameter := range one.Parameters {
				if parameter.In != "query" || len(parameter.Name) < 4 || parameter.Name == "columns" {
					continue
				}
				message := n.refuses(method, path+"?"+parameter.Name+"x=1", "", nil, parameter.Name+"x")
				assert.Contains(t, message, "是否想写 "+parameter.Name, "%s %s", method, path)
			}
			if len(one.RequestBody.Content) == 0 && method != "get" {
				n.refuses(method, path, "application/json", []byte(`{"surprise": 1}`), "surprise")
				contentType, form := n.formOf(object{"surprise": 1})
				n.refuses(method, path, contentType, form, "surprise")
			}
			for contentType, content := range one.RequestBody.Content {
				n.refusesFields(&document, method, path, contentType, document.resolve(content.Schema))
			}
		}
	}
}

// refusesFields requires that an operation refuses unknown fields of a body, at every depth.
func (n nameTest) refusesFields(document *apiDocument, method, path, contentType string, schema *bodySchema) {
	n.t.Helper()
	if schema == nil || len(schema.Properties) == 0 {
		return // a file
	}
	isForm := contentType == "multipart/form-data"
	send := func(body object, name string) string {
		n.t.Helper()
		if isForm {
			kind, form := n.formOf(body)
			return n.refuses(method, path, kind, form, name)
		}
		text, err := json.Marshal(body)
		require.NoError(n.t, err)
		return n.refuses(method, path, contentType, text, name)
	}
	for name, body := range document.misspelt(schema, 0) {
		send(body, name)
	}
	var names []string
	for name, property := range schema.Properties {
		if property.Format != "binary" && len(name) >= 4 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		message := send(object{name + "x": 1}, name+"x")
		assert.Contains(n.t, message, "是否想写 "+name, "%s %s", method, path)
	}
}

// The details of a refusal name the field or the query parameter whose value is not valid.
func TestARefusalNamesWhatIsNotValid(t *testing.T) {
	t.Parallel()
	n := nameTest{newSite(t, false), t}
	n.refuses("GET", api+"?page_size=101", "", nil, "page_size")
	n.refuses("GET", api+"?status=GREAT", "", nil, "status")
	n.refuses("POST", "/api/v1/facts", "application/json", []byte(`{"answers": "x"}`), "answers")
	n.refuses("PUT", "/api/v1/projects/"+db.DefaultProject.String()+"/settings", "application/json",
		[]byte(`{"review_reasons": [], "smallest_points": 101}`), "smallest_points")
}
