package rest

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"wending/handlers/request"
)

// The error codes that every endpoint may return, and the additional ones of endpoints with a body or a file.
var (
	anyFaults = []string{
		request.CodeUnauthenticated, request.CodeForbidden, request.CodeNotFound, request.CodeMethodNotAllowed,
		request.CodeHeadersTooLarge, request.CodeParameterInvalid, request.CodeRequestInvalid,
		request.CodeInternalError, request.CodeServiceUnavailable,
	}
	bodyFaults = []string{request.CodeRequestTooLarge}
	fileFaults = []string{request.CodeDatasetTooLarge, request.CodeQuotaExceeded}
)

// describeFaults adds the responses with an operation's errors to its description, one for each status with all its
// codes.
func describeFaults(operation *huma.Operation, schemas huma.Registry, e Endpoint, takesBody bool) {
	byStatus := map[int][]string{}
	codes := append(slices.Clone(e.Faults), anyFaults...)
	if takesBody {
		codes = append(codes, bodyFaults...)
	}
	if e.Body != nil && e.Body.Content["multipart/form-data"] != nil {
		codes = append(codes, fileFaults...)
	}
	for _, code := range codes {
		byStatus[request.StatusOf(code)] = append(byStatus[request.StatusOf(code)], code)
	}
	for status, codes := range byStatus {
		slices.Sort(codes)
		operation.Responses[strconv.Itoa(status)] = Refusal(schemas, status, slices.Compact(codes)...)
	}
}

// unexpectedFirst returns huma's errors from the first one about an unknown name on, or all if there is none: a
// misspelt name is reported rather than the one that is missing because of it.
func unexpectedFirst(errs []error) []error {
	isUnexpected := func(err error) bool {
		detail := (*huma.ErrorDetail)(nil)
		return errors.As(err, &detail) && detail.Message == validation.MsgUnexpectedProperty
	}
	if at := slices.IndexFunc(errs, isUnexpected); at > 0 {
		return errs[at:]
	}
	return errs
}

// parameterFault converts huma's error about a parameter into a fault that states the parameter's valid values.
func parameterFault(operation *huma.Operation, detail *huma.ErrorDetail) error {
	_, name, _ := strings.Cut(detail.Location, ".")
	if detail.Message == validation.MsgUnexpectedProperty {
		return request.UnknownFieldFault(name, vocabularyOf(operation).known(detail.Location)).WithCause(detail)
	}
	// The library huma names a missing parameter only in the message.
	if rest, isMissing := strings.CutPrefix(detail.Message, "expected required property "); isMissing {
		name, _, _ = strings.Cut(rest, " ")
	}
	if name == "" { // the error is not about a single parameter
		return request.NewFault(request.CodeRequestInvalid).WithCause(detail)
	}
	name, _, isItem := strings.Cut(name, "[")
	if isItem && strings.HasPrefix(detail.Location, "body.") {
		return request.ParameterFault(name, request.ValidText()).WithCause(detail)
	}
	return request.ParameterFault(name, limitOf(operation, name)).WithCause(detail)
}

func limitOf(operation *huma.Operation, name string) request.Limit {
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
			return request.OneOf(choices...)
		case schema.Type == huma.TypeInteger && schema.Minimum != nil && schema.Maximum != nil:
			return request.Between(int(*schema.Minimum), int(*schema.Maximum))
		case schema.Type == huma.TypeBoolean:
			return request.Boolean()
		}
	}
	if body := vocabularyOf(operation).body; body != nil && body.Properties[name] != nil {
		if schema := body.Properties[name]; schema.MinItems != nil && schema.MaxItems != nil {
			return request.ValuesBetween(*schema.MinItems, *schema.MaxItems)
		}
	}
	return request.NonEmpty()
}

// Download describes a response that is a file. examples maps its content types to examples; an empty example means
// that the content is binary.
func Download(description string, examples map[string]string) *huma.Response {
	response := &huma.Response{Description: description, Content: map[string]*huma.MediaType{}}
	for contentType, example := range examples {
		media := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}, Example: example}
		if example == "" {
			media.Schema.Format, media.Example = "binary", nil
		}
		response.Content[mediaType(contentType)] = media
	}
	return response
}

// mediaType returns a content type without its parameters, because clients look responses up by the type alone.
func mediaType(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return kind
}

// Content describes a response with a JSON value of type T that is written as a stream.
func Content[T any](schemas huma.Registry, description, contentType string) *huma.Response {
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{
		contentType: {Schema: schemas.Schema(reflect.TypeFor[T](), true, reflect.TypeFor[T]().Name())},
	}}
}

// Events describes a response with server-sent events, whose data have one of the types of the given values.
func Events(schemas huma.Registry, description string, data ...any) *huma.Response {
	schema := &huma.Schema{}
	for _, one := range data {
		t := reflect.TypeOf(one)
		schema.AnyOf = append(schema.AnyOf, schemas.Schema(t, true, t.Name()))
	}
	return &huma.Response{Description: description,
		Content: map[string]*huma.MediaType{"text/event-stream": {Schema: schema}}}
}

// Refusal describes the error responses with one status and the given codes.
func Refusal(schemas huma.Registry, status int, codes ...string) *huma.Response {
	return &huma.Response{
		Description: http.StatusText(status) + ": " + strings.Join(codes, ", "),
		Content: map[string]*huma.MediaType{"application/json": {
			Schema:  schemas.Schema(reflect.TypeFor[failure](), true, "Failure"),
			Example: map[string]string{"code": codes[0], "message": "…"},
		}},
	}
}

// Multipart describes a request body with form fields: those of T, one of which may be a file.
func Multipart[T any](schemas huma.Registry, isRequired bool) *huma.RequestBody {
	schema := schemas.Schema(reflect.TypeFor[T](), true, reflect.TypeFor[T]().Name())
	return &huma.RequestBody{Required: isRequired,
		Content: map[string]*huma.MediaType{"multipart/form-data": {Schema: schema}}}
}
