package rest

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"wending/handlers/fault"
)

// anyFaults are the codes that every endpoint may answer.
var anyFaults = []string{"UNAUTHENTICATED", "FORBIDDEN", "METHOD_NOT_ALLOWED", "INTERNAL_ERROR", "SERVICE_UNAVAILABLE"}

// describeFaults adds the responses of an operation's errors: one a status, with its codes.
func describeFaults(operation *huma.Operation, schemas huma.Registry, codes []string) {
	schema := schemas.Schema(reflect.TypeFor[failure](), true, "Failure")
	byStatus := map[int][]string{}
	for _, code := range append(slices.Clone(codes), anyFaults...) {
		byStatus[fault.Status(code)] = append(byStatus[fault.Status(code)], code)
	}
	for status, codes := range byStatus {
		slices.Sort(codes)
		codes = slices.Compact(codes)
		operation.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status) + ": " + strings.Join(codes, ", "),
			Content: map[string]*huma.MediaType{"application/json": {
				Schema: schema, Example: map[string]string{"code": codes[0], "message": "…"},
			}},
		}
	}
}

// parameterFault turns huma's complaint about a parameter into ours, with the parameter's own limits.
func parameterFault(operation *huma.Operation, detail *huma.ErrorDetail) error {
	_, name, _ := strings.Cut(detail.Location, ".")
	if rest, isMissing := strings.CutPrefix(detail.Message, "expected required property "); isMissing { // it has no place of its own
		name, _, _ = strings.Cut(rest, " ")
	}
	if name == "" { // not about one parameter
		return fault.New("REQUEST_INVALID").WithCause(detail)
	}
	name, _, _ = strings.Cut(name, "[")
	return fault.Parameter(name, limitOf(operation, name)).WithCause(detail)
}

func limitOf(operation *huma.Operation, name string) fault.Limit {
	for _, parameter := range operation.Parameters {
		if parameter.Name != name {
			continue
		}
		schema := parameter.Schema
		if schema.Type == huma.TypeArray {
			schema = schema.Items
		}
		switch {
		case len(schema.Enum) > 0:
			var choices []string
			for _, choice := range schema.Enum {
				choices = append(choices, choice.(string))
			}
			return fault.OneOf(choices...)
		case schema.Type == huma.TypeInteger && schema.Minimum != nil && schema.Maximum != nil:
			return fault.Between(int(*schema.Minimum), int(*schema.Maximum))
		case schema.Type == huma.TypeBoolean:
			return fault.Boolean()
		}
	}
	return fault.NonEmpty()
}

// Download describes a response that is a file, with an example of each content type; "" for binary ones.
func Download(description string, examples map[string]string) *huma.Response {
	response := &huma.Response{Description: description, Content: map[string]*huma.MediaType{}}
	for contentType, example := range examples {
		media := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}, Example: example}
		if example == "" {
			media.Schema.Format, media.Example = "binary", nil
		}
		response.Content[contentType] = media
	}
	return response
}

// Content describes a response of a JSON type that is written as a stream.
func Content[T any](schemas huma.Registry, description, contentType string) *huma.Response {
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{
		contentType: {Schema: schemas.Schema(reflect.TypeFor[T](), true, reflect.TypeFor[T]().Name())},
	}}
}

// Multipart describes a request body of form fields: the fields of T, and a file.
func Multipart[T any](schemas huma.Registry, isRequired bool) *huma.RequestBody {
	schema := schemas.Schema(reflect.TypeFor[T](), true, reflect.TypeFor[T]().Name())
	return &huma.RequestBody{Required: isRequired, Content: map[string]*huma.MediaType{"multipart/form-data": {Schema: schema}}}
}
