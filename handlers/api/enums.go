package api

import (
	"slices"

	"wending/db"
	"wending/db/engine"
	"wending/db/event"
	"wending/db/meaning"
	"wending/db/measure"
	"wending/db/measure/facts"
	"wending/db/report"
	"wending/db/review"
	"wending/handlers/library"
	"wending/handlers/people"
	"wending/handlers/rest"
	"wending/jobs/agent/protocol"
	"wending/jobs/answers"
	"wending/jobs/evaluate"
	"wending/jobs/tasks"
	"wending/views/text"
)

// enums returns the lists of values of the types with a fixed set of values, and of the names used in the tag `values`.
// The OpenAPI document takes its enums from these lists, which are declared next to the constants.
func enums() []rest.Enum {
	var ofModels []string
	for _, one := range protocol.All {
		if one.IsOfModels() {
			ofModels = append(ofModels, one.Name)
		}
	}
	return append(slices.Concat(people.Enums(), library.Enums()),
		rest.EnumOf(db.TaskStatuses), rest.EnumOf(db.RunStatuses), rest.EnumOf(db.LaunchKinds),
		rest.EnumOf(db.LaunchStatuses), rest.EnumOf(meaning.Bys),
		rest.EnumOf(db.TargetKinds), rest.EnumOf(db.OnTurnFailures), rest.EnumOf(engine.AssetStates),
		rest.EnumOf(review.Verdicts), rest.EnumOf(review.Preferences), rest.EnumOf(measure.ConfigurationKinds),
		rest.EnumOf(slices.Concat(measure.Transitions, []measure.Transition{measure.UnknownTransition})),
		rest.EnumOf(measure.ChangeGroups), rest.EnumOf(measure.Losses),
		rest.EnumOf(evaluate.Kinds), rest.EnumOf(event.Types),
		rest.EnumOf(protocol.Statuses), rest.EnumOf(measure.Levels), rest.EnumOf(report.ItemStates), rest.EnumOf(facts.Kinds),
		rest.EnumOf(facts.Differs), rest.EnumOf(measure.Metrics),
		rest.EnumNamed("evaluators", evaluate.Kinds), rest.EnumNamed("verdicts", evaluate.Statuses),
		rest.EnumNamed("answer formats", answers.Formats),
		rest.EnumNamed("turn failures", db.OnTurnFailures), rest.EnumNamed("via", db.Vias),
		rest.EnumNamed("stop reasons", engine.Reasons),
		rest.EnumNamed("warnings", tasks.WarningCodes),
		rest.EnumNamed("languages", text.Languages), rest.EnumNamed("model protocols", ofModels),
		rest.EnumNamed("files", event.Kinds),
		rest.EnumNamed("tool states", event.ToolStates),
		rest.EnumNamed("span kinds", event.SpanKinds),
	)
}
