package request

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"wending/db/people"
)

// AuditEntry is the audit's entry about a request.
type AuditEntry = people.AuditEntry

// AuditRecord is the entry of a request in progress, and the means to store it.
type AuditRecord struct {
	AuditEntry
	// Begin stores the entry before the request acts, so that the entry cannot be lost.
	Begin func(context.Context) error
	// confirmed describes the sensitive content that the request confirmed.
	confirmed *confirmedContent
}

type auditKey struct{}

// WithAudit returns a context in which Note changes the record's entry.
func WithAudit(ctx context.Context, record *AuditRecord) context.Context {
	return context.WithValue(ctx, auditKey{}, record)
}

// Note changes the entry of the context's record by calling say; without a record, it does nothing. The goroutine that
// answers the request calls it before the response begins.
func Note(ctx context.Context, say func(*AuditEntry)) {
	if record, isThere := ctx.Value(auditKey{}).(*AuditRecord); isThere {
		say(&record.AuditEntry)
	}
}

// Intend is for requests whose intent the route does not imply: it changes the record's entry by calling say, and
// stores it as the request's intent. After an error the request must not act.
func Intend(ctx context.Context, say func(*AuditEntry)) error {
	Note(ctx, say)
	if record, isThere := ctx.Value(auditKey{}).(*AuditRecord); isThere {
		return record.Begin(ctx)
	}
	return nil
}

// Made records the id and name of the object that a request has created or acted on.
func Made(ctx context.Context, id, name string) {
	Note(ctx, func(e *AuditEntry) { e.ObjectID, e.ObjectName = id, name })
}

// Changed records settings before and after a request changed them. Neither value may contain secrets.
func Changed(ctx context.Context, before, after any) {
	Note(ctx, func(e *AuditEntry) { e.Before, e.After = asJSON(before), asJSON(after) })
}

// maxSettings is the maximum length, in bytes, of an entry's settings as JSON. There is a maximum because templates may
// be long.
const maxSettings = 20_000

func asJSON(settings any) string {
	if settings == nil {
		return ""
	}
	text, err := json.Marshal(settings)
	if err != nil || len(text) > maxSettings {
		return `"too long"`
	}
	return string(text)
}

// AuditFields maps the column names of a row to the values that the audit records: all but times and encrypted values.
// row is a pointer to a struct with db tags; if it is nil, the map is empty.
func AuditFields(row any) map[string]any {
	fields, value := map[string]any{}, reflect.ValueOf(row)
	if value.Kind() == reflect.Pointer && !value.IsNil() {
		addFields(fields, value.Elem())
	}
	return fields
}

func addFields(fields map[string]any, row reflect.Value) {
	for n := range row.NumField() {
		field := row.Type().Field(n)
		name, value := field.Tag.Get("db"), row.Field(n)
		switch value.Interface().(type) {
		case time.Time, *time.Time, []byte:
			continue
		}
		switch {
		case field.Anonymous && value.Kind() == reflect.Struct:
			addFields(fields, value)
		case name != "" && name != "-" && field.IsExported():
			fields[name] = value.Interface()
		}
	}
}

// Same reports whether two values of AuditFields are equal, so that the audit log records no change.
func Same(a, b any) bool { return reflect.DeepEqual(a, b) }
