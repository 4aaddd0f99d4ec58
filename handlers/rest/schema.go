package rest

import (
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Enum lists the valid values of the type Type or, if Type is nil, of the fields whose tag `values` is Name.
type Enum struct {
	Type   reflect.Type
	Name   string
	Values []any
}

// EnumOf returns the Enum of a type, from the list of its constants.
func EnumOf[T ~string](values []T) Enum {
	enum := EnumNamed("", values)
	enum.Type = reflect.TypeFor[T]()
	return enum
}

// EnumNamed returns an Enum to which fields refer by its name, in the tag `values`.
func EnumNamed[T ~string](name string, values []T) Enum {
	enum := Enum{Name: name}
	for _, value := range values {
		enum.Values = append(enum.Values, string(value))
	}
	return enum
}

// CompleteSchemas adds what huma leaves out of the schemas of types, so that they describe what encoding/json writes:
// the fields of unexported embedded types, null for pointers and maps without omitempty, and the values of types with a
// fixed set of values.
func CompleteSchemas(schemas huma.Registry, enums ...Enum) {
	// A field that is added may have a type without a schema, so new schemas are completed until there are no more.
	for done := map[string]bool{}; len(done) < len(schemas.Map()); {
		for name, schema := range schemas.Map() {
			if done[name] {
				continue
			}
			done[name] = true
			if t := schemas.TypeFromRef("#/components/schemas/" + name); t.Kind() == reflect.Struct {
				completeStruct(schemas, schema, t, enums)
			}
		}
	}
}

func completeStruct(schemas huma.Registry, schema *huma.Schema, t reflect.Type, enums []Enum) {
	for _, field := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" || !field.IsExported() {
			continue
		}
		isOptional := strings.Contains(options, "omitempty")
		property := schema.Properties[name]
		if property == nil {
			property = huma.SchemaFromField(schemas, field, t.Name()+field.Name)
			schema.Properties[name] = property
			if property.Nullable = property.Nullable && !isOptional; !isOptional {
				schema.Required = append(schema.Required, name)
			}
		}
		addValues(property, field, enums)
		kind := field.Type.Kind()
		if field.Tag.Get("null") == "true" || (kind == reflect.Pointer || kind == reflect.Map) && !isOptional {
			schema.Properties[name] = orNull(property)
		}
		schema.Properties[name].PrecomputeMessages()
	}
	schema.PrecomputeMessages()
}

// addValues adds the valid values to the schema of a property, or of its items, if there is an Enum for its type or for
// its tag `values`. It does not replace values that the schema already lists.
func addValues(property *huma.Schema, field reflect.StructField, enums []Enum) {
	t := field.Type
	for property != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) {
		if t.Kind() == reflect.Slice {
			property = property.Items
		}
		t = t.Elem()
	}
	if property == nil || property.Enum != nil {
		return
	}
	name := field.Tag.Get("values")
	at := slices.IndexFunc(enums, func(e Enum) bool { return name != "" && e.Name == name || e.Type == t })
	if at < 0 {
		if name != "" {
			panic("no values are called " + name)
		}
		return
	}
	property.Enum = slices.Clone(enums[at].Values)
}

// orNull returns a schema that accepts null in addition to what the given one accepts.
func orNull(schema *huma.Schema) *huma.Schema {
	switch {
	case schema.Ref != "":
		return &huma.Schema{
			AnyOf: []*huma.Schema{{Ref: schema.Ref}, {Type: "null"}}, Description: schema.Description, Examples: schema.Examples,
		}
	case schema.Type == "": // any value matches
		return schema
	case len(schema.Enum) > 0 && !slices.Contains(schema.Enum, any(nil)):
		schema.Enum = append(schema.Enum, nil)
	}
	schema.Nullable = true
	return schema
}
