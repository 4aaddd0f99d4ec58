package form

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/google/uuid"

	"wending/db/entries"
	"wending/handlers/request"
	"wending/jobs/evaluate"
	"wending/jobs/library"
)

// Evaluator parses a form for an evaluator; absent fields keep base's values. A JSON form has the configuration as one
// object; on pages, each member of it has its own field.
func Evaluator(ctx context.Context, form *Upload,
	base entries.Evaluator) (e entries.Evaluator, rule *evaluate.Rule, faults []FieldFault) {
	c, e := fields{form: form}, base
	c.entryName(&e.Name)
	rule = c.rule(ctx, &e.EvaluatorVersion)
	return e, rule, c.faults
}

// Rule parses the kind and the configuration of an evaluator, without its name. For a judge it returns no rule, only
// the configuration.
func Rule(ctx context.Context, form *Upload) (rule *evaluate.Rule, config json.RawMessage, faults []FieldFault) {
	c, version := fields{form: form}, entries.EvaluatorVersion{}
	return c.rule(ctx, &version), version.Config, c.faults
}

func (c *fields) rule(ctx context.Context, version *entries.EvaluatorVersion) *evaluate.Rule {
	before := version.Rule
	c.choice("kind", texts(evaluate.Kinds), &version.Rule)
	if c.hasFault("kind") {
		return nil
	}
	kind := evaluate.Kind(version.Rule)
	var err error
	switch {
	case c.form.Has("config"):
		version.Config = json.RawMessage(c.form.Value("config"))
	case !c.form.IsJSON:
		version.Config, err = evaluate.ReadFields(kind, func(name string) string {
			return c.form.Values[evaluate.FormField(name)]
		})
	case version.Rule != before:
		version.Config = nil // the configuration of another kind does not apply to this one
	}
	var rule *evaluate.Rule
	switch {
	case err != nil:
	case kind == evaluate.Judge:
		_, err = evaluate.ParseJudge(version.Config)
	default:
		rule, err = evaluate.Compile(ctx, kind, version.Config)
	}
	if wrong := (*evaluate.ConfigError)(nil); errors.As(err, &wrong) {
		field := "config"
		switch {
		case wrong.Field != "" && c.form.IsJSON:
			field = "config." + wrong.Field
		case wrong.Field != "":
			field = evaluate.FormField(wrong.Field)
		}
		limit := request.Required()
		switch {
		case len(wrong.Known) > 0:
			limit = request.OneOf(wrong.Known...)
		case wrong.Limit != "":
			limit = request.ValidRuleValue(wrong.Limit)
		case wrong.Why != "":
			limit = request.ValidRule(wrong.Why)
		}
		c.fail(field, request.FieldFault(field, limit).WithCause(err))
		return nil
	} else if err != nil {
		c.fail("config", request.FaultOf(err))
		return nil
	}
	if len(bytes.TrimSpace(version.Config)) == 0 {
		version.Config = json.RawMessage("{}")
	}
	return rule
}

func (s Saver) saveEvaluator(ctx context.Context, row *entries.Evaluator, f *Upload) (uuid.UUID, []FieldFault, error) {
	base := entries.Evaluator{Entry: entries.Entry{ID: uuid.New()}}
	if row != nil {
		base = *row
	}
	e, _, faults := Evaluator(ctx, f, base)
	if len(faults) > 0 {
		return uuid.Nil, faults, nil
	}
	if evaluate.Kind(e.Rule) == evaluate.Judge {
		if _, err := s.Library.JudgeModel(ctx, request.ScopeOf(ctx), e.Config); err != nil {
			return uuid.Nil, []FieldFault{JudgeFault(f, err)}, nil
		}
	}
	if row == nil {
		return saved(e.ID, s.Library.Entries.InsertEvaluator(ctx, request.ScopeOf(ctx), e))
	}
	err := s.Library.Entries.Evaluators.Update(ctx, request.ScopeOf(ctx), e)
	if err == nil && (e.Rule != row.Rule || !sameConfig(e.Config, row.Config)) {
		_, err = s.Library.Entries.AddEvaluatorVersion(ctx, request.ScopeOf(ctx), e)
	}
	return saved(e.ID, err)
}

// JudgeFault returns the fault of a judge's field model_id when its model cannot be used, for the reason in err.
func JudgeFault(f *Upload, err error) FieldFault {
	field := evaluate.FormField("model_id")
	if f.IsJSON {
		field = "config.model_id"
	}
	if errors.Is(err, library.ErrUnknownReference) {
		return FieldFault{field, request.FieldFault(field, request.ValidEntries()).WithCause(err)}
	}
	return FieldFault{field, request.FaultOf(err)}
}

// sameConfig reports whether two configurations are equal apart from formatting.
func sameConfig(a, b json.RawMessage) bool {
	var one, other bytes.Buffer
	return json.Compact(&one, a) == nil && json.Compact(&other, b) == nil && bytes.Equal(one.Bytes(), other.Bytes())
}

// Whole parses a field that must be an integer of 0 or more; if it is absent, the result is 0.
func Whole(form *Upload, field string) (int, error) {
	typed := form.Value(field)
	if typed == "" {
		return 0, nil
	}
	number, err := strconv.Atoi(typed)
	if err != nil || number < 0 || number > math.MaxInt32 {
		return 0, request.FieldFault(field, request.Between(0, math.MaxInt32))
	}
	return number, nil
}
