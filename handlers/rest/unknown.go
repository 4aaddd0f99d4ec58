package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"wending/handlers/form"
	"wending/handlers/request"
	"wending/views/text"
)

// everywhere are the query parameters that every operation accepts: the project, and the language of messages.
var everywhere = []string{"project", request.LanguageParameter}

// refuseUnknown refuses query parameters that an operation does not know, and fields that are sent to an operation
// without a body. A misspelt name would otherwise be ignored, and the request would do something else than intended.
func refuseUnknown(api huma.API, takesBody bool) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		err := unknownParameter(ctx)
		if err == nil && !takesBody && ctx.Method() != http.MethodGet {
			err = strayField(ctx)
		}
		if err != nil {
			_ = huma.WriteErr(api, ctx, http.StatusUnprocessableEntity, "", NewFailure(ctx.Context(), err))
			return
		}
		next(ctx)
	}
}

// ColumnsParameter is the name of the described parameter that stands for all parameters that filter by a column of the
// dataset: it is an object, whose members are these parameters.
const ColumnsParameter = "columns"

// Columns describes the parameters that filter questions by the columns of their dataset.
func Columns() *huma.Param {
	explode := true
	return &huma.Param{
		Name: ColumnsParameter, In: "query", Style: "form", Explode: &explode,
		Description: "column.<name>=<value>: only questions with this value in the dataset column, or without one if the " +
			"value is blank; repeatable: values of the same column are combined with OR, different columns with AND",
		Schema:  &huma.Schema{Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString}},
		Example: map[string]string{request.ColumnPrefix + "category": "合同"},
	}
}

// confirmation describes the parameter that confirms sensitive content.
func confirmation() *huma.Param {
	return &huma.Param{
		Name: request.ConfirmParameter, In: "query",
		Description: "Confirms that sensitive content is sent, in a project whose sensitive_action is confirm: the " +
			"confirmation that the response SENSITIVE_UNCONFIRMED to the same request contains",
		Schema: &huma.Schema{Type: huma.TypeString}, Example: "5f0c2d9a1b7e4c36",
	}
}

func unknownParameter(ctx huma.Context) error {
	address := ctx.URL()
	query, err := url.ParseQuery(address.RawQuery)
	if err != nil {
		return request.NewFault(request.CodeRequestInvalid).WithCause(err)
	}
	if lang := query.Get(request.LanguageParameter); lang != "" && !slices.Contains(text.Languages, lang) {
		return request.ParameterFault(request.LanguageParameter, request.OneOf(text.Languages...))
	}
	var known []string
	for _, parameter := range ctx.Operation().Parameters {
		if parameter.In == "query" {
			known = append(known, parameter.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if strings.HasPrefix(name, request.ColumnPrefix) && slices.Contains(known, ColumnsParameter) {
			continue // only the task knows which columns exist
		}
		if !slices.Contains(known, name) && !slices.Contains(everywhere, name) {
			return request.UnknownParameterFault(name, append(known, everywhere...))
		}
	}
	return nil
}

// strayField returns a fault for the first field that was sent to an operation without a body; nil if there is none.
func strayField(ctx huma.Context) error {
	c := humaecho.Unwrap(ctx)
	kind, _, _ := mime.ParseMediaType(ctx.Header("Content-Type"))
	if kind != "multipart/form-data" {
		submitted, err := form.Read(c.Response(), c.Request(), nil)
		if err != nil || len(submitted.Values) == 0 {
			return nil //nolint:nilerr // a body that is not a form has no fields
		}
		return request.UnknownFieldFault(slices.Min(slices.Collect(maps.Keys(submitted.Values))), nil)
	}
	parts, err := c.Request().MultipartReader()
	if err != nil {
		return request.NewFault(request.CodeRequestInvalid).WithCause(err)
	}
	part, err := parts.NextPart()
	if err != nil {
		return nil //nolint:nilerr // an empty form
	}
	return request.UnknownFieldFault(part.FormName(), nil)
}

// schemasKey is the key in an operation's metadata for the schemas to which the operation's own schema refers.
const schemasKey = "schemas"

// vocabulary knows the names of the fields and members that an operation's body may have.
type vocabulary struct {
	schemas huma.Registry
	body    *huma.Schema
}

func vocabularyOf(operation *huma.Operation) vocabulary {
	schemas, _ := operation.Metadata[schemasKey].(huma.Registry)
	known := vocabulary{schemas: schemas}
	if operation.RequestBody != nil {
		for _, media := range operation.RequestBody.Content { // alternatives for the same body
			known.body = known.resolve(media.Schema)
		}
	}
	return known
}

// resolve returns the schema to which a reference refers; for a schema that also accepts null, the other alternative.
func (v vocabulary) resolve(schema *huma.Schema) *huma.Schema {
	for schema != nil && (schema.Ref != "" || len(schema.AnyOf) > 0) {
		if schema.Ref == "" {
			schema = schema.AnyOf[0]
			continue
		}
		schema = v.schemas.SchemaFromRef(schema.Ref)
	}
	return schema
}

// unknownField returns a fault for the first field of a form that its operation does not know; nil if there is none. In
// a form for an operation that takes a file, the file may be in any of form.FileFields.
func unknownField(operation *huma.Operation, submitted *form.Upload) error {
	known := vocabularyOf(operation)
	if known.body == nil {
		return nil
	}
	takesFile := false
	for _, property := range known.body.Properties {
		takesFile = takesFile || property.Format == "binary"
	}
	if submitted.File != nil && !takesFile {
		return request.UnknownFieldFault(form.FileFields[0], fieldsOf(known.body))
	}
	for _, name := range slices.Sorted(maps.Keys(submitted.Values)) {
		property := known.body.Properties[name]
		if property == nil {
			return request.UnknownFieldFault(name, fieldsOf(known.body))
		}
		var value any
		text := submitted.Values[name]
		if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") || json.Unmarshal([]byte(text), &value) != nil {
			continue
		}
		if err := known.unknownMember(property, value, name); err != nil {
			return err
		}
	}
	return nil
}

// unknownMember returns a fault for the first member of a value that its schema does not have; path is the path of the
// value.
func (v vocabulary) unknownMember(schema *huma.Schema, value any, path string) error {
	schema = v.resolve(schema)
	if schema == nil {
		return nil
	}
	switch value := value.(type) {
	case []any:
		for n, item := range value {
			if err := v.unknownMember(schema.Items, item, fmt.Sprintf("%s[%d]", path, n)); err != nil {
				return err
			}
		}
	case map[string]any:
		if schema.Properties == nil { // a map may have any names
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			member := path + "." + name
			if schema.Properties[name] == nil {
				return request.UnknownFieldFault(member, under(path, fieldsOf(schema)))
			}
			if err := v.unknownMember(schema.Properties[name], value[name], member); err != nil {
				return err
			}
		}
	}
	return nil
}

// known returns the paths of the valid fields next to the field with the given path, which is in huma's notation:
// body.a.b[0].c.
func (v vocabulary) known(path string) (beside []string) {
	schema, parent := v.body, ""
	names := strings.Split(strings.TrimPrefix(path, "body."), ".")
	for _, name := range names[:len(names)-1] {
		parent = strings.TrimPrefix(parent+"."+name, ".")
		name, _, isItem := strings.Cut(name, "[")
		if schema = v.resolve(schema.Properties[name]); isItem && schema != nil {
			schema = v.resolve(schema.Items)
		}
		if schema == nil {
			return nil
		}
	}
	return under(parent, fieldsOf(schema))
}

func fieldsOf(schema *huma.Schema) []string { return slices.Sorted(maps.Keys(schema.Properties)) }

// under returns the paths of names below a path.
func under(path string, names []string) []string {
	if path == "" {
		return names
	}
	paths := make([]string, len(names))
	for n, name := range names {
		paths[n] = path + "." + name
	}
	return paths
}

// ReadForm parses the form of a request while it arrives, and refuses fields that the operation does not know.
func ReadForm(ctx huma.Context) (*form.Upload, error) {
	return readForm(ctx, form.Read, request.From(ctx.Context()).Gates.Files)
}

func readForm(ctx huma.Context, read func(http.ResponseWriter, *http.Request, *request.Gate) (*form.Upload, error),
	gate *request.Gate) (*form.Upload, error) {
	c := humaecho.Unwrap(ctx)
	submitted, err := read(c.Response(), c.Request(), gate)
	if err == nil {
		err = unknownField(ctx.Operation(), submitted)
	}
	return submitted, err
}
