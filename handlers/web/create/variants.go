package create

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/shopspring/decimal"

	"wending/db"
	"wending/db/entries"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/agent/guard"
	"wending/jobs/agent/protocol"
	"wending/jobs/evaluate"
	"wending/jobs/library"
	"wending/jobs/tasks"
	"wending/static"
	"wending/views/paths"
	"wending/views/saved"
	"wending/views/taskpages"
	"wending/views/text"
	"wending/views/ui"
)

// offeredMost is the maximum number of entries of each kind that a form offers, newest first.
const offeredMost = 200

var offered = db.Page{Number: 1, Size: offeredMost}

// agentsKind is the name of the kind of agents in the library's paths.
const agentsKind = "agents"

// addReferences adds the library entries that a task uses to the fields of a form, and returns the names of those that
// are no longer offered.
func (h *Forms) addReferences(ctx context.Context, source db.Task,
	values map[string]string) (gone []string, err error) {
	values["form"] = taskpages.CompareForm
	var models, agents, prompts []string
	for _, target := range source.Targets {
		if target.LibraryID == nil {
			continue
		}
		reference, list := library.Reference{ID: *target.LibraryID}, &agents
		find := h.Library.AgentTarget
		if target.Kind == db.TargetModel {
			list, find = &models, h.Library.ModelTarget
		}
		_, _, err := find(ctx, source.Scope(), reference)
		switch {
		case errors.Is(err, library.ErrUnknownReference):
			gone = append(gone, target.Name)
		case err != nil:
			return nil, err
		default:
			*list = append(*list, target.LibraryID.String())
		}
	}
	for _, variant := range source.Variants {
		if variant.Target != 1 || variant.PromptID == nil {
			continue
		}
		_, err := h.Library.Prompt(ctx, request.ScopeOf(ctx),
			library.Reference{ID: *variant.PromptID, Version: *variant.PromptVersion})
		switch {
		case errors.Is(err, library.ErrUnknownReference):
			name, _, _ := strings.Cut(variant.Name, " × ")
			gone = append(gone, name)
		case err != nil:
			return nil, err
		default:
			prompts = append(prompts, fmt.Sprintf("%s@%d", variant.PromptID, *variant.PromptVersion))
		}
	}
	values["models"], values["agents"], values["prompts"] = strings.Join(models, ","), strings.Join(agents, ","),
		strings.Join(prompts, ",")
	return gone, nil
}

// addSaved adds the entries of the library that a form offers to its view.
func (h *Forms) addSaved(ctx context.Context, locale text.Locale, s *submission, view *taskpages.Form) error {
	if !s.isComparison() { // in the form for a comparison, they have checkboxes
		agents, _, err := h.Library.Entries.Agents.List(ctx, request.ScopeOf(ctx), entries.Filter{}, offered)
		if err != nil {
			return err
		}
		for _, one := range agents {
			view.SavedAgents = append(view.SavedAgents, ui.Choice{Value: one.ID.String(), Label: one.Name})
		}
	}
	var err error
	if view.SavedDatasets, err = h.savedDatasets(ctx, locale, s.Value("dataset")); err != nil {
		return err
	}
	if view.Evaluators, err = h.SavedEvaluators(ctx, locale, s.List("evaluators")); err != nil {
		return err
	}
	channels, _, err := h.Library.Entries.Channels.List(ctx, request.ScopeOf(ctx), entries.Filter{}, offered)
	if err != nil {
		return err
	}
	for _, one := range channels {
		isChosen := one.IsDefault
		if s.Has("channels") {
			isChosen = slices.Contains(s.List("channels"), one.ID.String())
		}
		view.Channels = append(view.Channels, taskpages.TargetChoice{
			Reference: one.ID.String(), Name: one.Name, Detail: locale.Text("channel.kind." + one.Kind),
			HasFailed: one.HasFailed(), IsChosen: isChosen,
		})
	}
	if view.Groupers, err = h.SavedModels(ctx); err != nil {
		return err
	}
	view.Agent, view.Dataset, view.Grouper, view.Gone = s.Value("agents"), s.Value("dataset"),
		s.Value("meaning_model"), s.gone
	return nil
}

// savedDatasets returns the saved datasets with all their versions, newest first. The chosen version is always
// included.
func (h *Forms) savedDatasets(ctx context.Context, locale text.Locale, chosen string) (choices []ui.Choice, err error) {
	datasets, _, err := h.Library.Entries.Datasets.List(ctx, request.ScopeOf(ctx), entries.Filter{}, offered)
	if err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(datasets))
	for n, one := range datasets {
		ids[n] = one.ID
	}
	earlier, err := h.Library.Entries.EarlierDatasets(ctx, request.ScopeOf(ctx), ids...)
	if err != nil {
		return nil, err
	}
	for _, one := range datasets {
		choice := func(value string, version entries.DatasetVersion) ui.Choice {
			made := ui.Choice{Value: value, Label: locale.Text("create.saved.items", "Name", one.Name,
				"Version", version.Version, "Count", version.TotalItems)}
			if len(earlier[one.ID]) > 0 {
				made.Group = one.Name
			}
			return made
		}
		newest := one.ID.String()
		if chosen == fmt.Sprintf("%s@%d", one.ID, one.Version) {
			newest = chosen
		}
		choices = append(choices, choice(newest, one.DatasetVersion))
		for _, version := range earlier[one.ID] {
			choices = append(choices, choice(fmt.Sprintf("%s@%d", one.ID, version.Version), version))
		}
	}
	if chosen == "" || slices.ContainsFunc(choices, func(one ui.Choice) bool { return one.Value == chosen }) {
		return choices, nil
	}
	reference, err := library.ParseReference(chosen)
	if err != nil {
		return choices, nil //nolint:nilerr // the field shows the fault
	}
	one, err := h.Library.Dataset(ctx, request.ScopeOf(ctx), reference)
	if errors.Is(err, library.ErrUnknownReference) {
		return choices, nil
	}
	label := locale.Text("create.saved.items", "Name", one.Name, "Version", one.Version, "Count", one.TotalItems)
	return append(choices, ui.Choice{Value: chosen, Label: label}), err
}

// SavedEvaluators returns the saved evaluators. The chosen ones come first, in the versions that were chosen.
func (h *Forms) SavedEvaluators(ctx context.Context, locale text.Locale,
	chosen []string) (choices []taskpages.TargetChoice, err error) {
	evaluators, _, err := h.Library.Entries.Evaluators.List(ctx, request.ScopeOf(ctx), entries.Filter{}, offered)
	if err != nil {
		return nil, err
	}
	for _, one := range evaluators {
		choice := taskpages.TargetChoice{Reference: one.ID.String(), Name: one.Name,
			Detail: locale.Text("evaluator.kind." + one.Rule)}
		for _, reference := range chosen {
			if id, version, hasVersion := strings.Cut(reference, "@"); id == choice.Reference {
				choice.IsChosen = true
				if hasVersion {
					choice.Reference, choice.Detail = reference, choice.Detail+" · v"+version
				}
				break
			}
		}
		choices = append(choices, choice)
	}
	slices.SortStableFunc(choices, func(a, b taskpages.TargetChoice) int { return chosenFirst(a.IsChosen, b.IsChosen) })
	return choices, nil
}

// SavedModels returns the saved models, each with its provider and prices.
func (h *Forms) SavedModels(ctx context.Context) (choices []ui.Choice, err error) {
	models, _, err := h.Library.Entries.Models.List(ctx, request.ScopeOf(ctx), entries.Filter{}, offered)
	if err != nil {
		return nil, err
	}
	for _, one := range models {
		label := one.Name + " · " + modelDetail(one)
		if price := saved.PriceText(one.Prices); price != "" {
			label += " · " + price
		}
		choices = append(choices, ui.Choice{Value: one.ID.String(), Label: label})
	}
	return choices, nil
}

// modelDetail returns the name of a model's provider and, unless it is the model's name, its id at the provider.
func modelDetail(model entries.Model) string {
	if model.ModelID == model.Name {
		return model.ProviderName
	}
	return model.ProviderName + " · " + model.ModelID
}

// addGrouper adds the model that groups a task's answers by meaning to the fields of a form. If the model is no longer
// offered, it returns its name instead.
func (h *Forms) addGrouper(ctx context.Context, source db.Task, values map[string]string) (gone []string, err error) {
	grouper := source.Grouper()
	if grouper == nil || grouper.LibraryID == nil {
		return nil, nil
	}
	_, _, err = h.Library.ModelTarget(ctx, request.ScopeOf(ctx), library.Reference{ID: *grouper.LibraryID})
	if errors.Is(err, library.ErrUnknownReference) {
		return []string{grouper.Name}, nil
	}
	if err == nil {
		values["meaning_model"] = grouper.LibraryID.String()
	}
	return nil, err
}

// addEvaluators adds a task's evaluators to the fields of a form, and returns the names of those that are no longer
// offered.
func (h *Forms) addEvaluators(ctx context.Context, source db.Task,
	values map[string]string) (gone []string, err error) {
	var references []string
	for _, evaluator := range source.Evaluators {
		_, err := h.Library.Evaluator(ctx, request.ScopeOf(ctx),
			library.Reference{ID: evaluator.EvaluatorID, Version: evaluator.Version})
		switch {
		case errors.Is(err, library.ErrUnknownReference):
			gone = append(gone, evaluator.Name)
		case err != nil:
			return nil, err
		default:
			references = append(references, fmt.Sprintf("%s@%d", evaluator.EvaluatorID, evaluator.Version))
		}
	}
	values["evaluators"] = strings.Join(references, ",")
	return gone, nil
}

// renderComparison shows the form that compares prompts, models and agents.
func (h *Forms) renderComparison(c echo.Context, status int, s *submission, form taskpages.Form) error {
	ctx := c.Request().Context()
	view := taskpages.Compare{Form: form}
	var err error
	if view.Estimate, err = h.estimated(c, s); err != nil {
		return err
	}
	s.Release() // a slow client may take long to read the response
	if view.Prompts, err = h.promptChoices(ctx, pages.Locale(c), s.List("prompts")); err != nil {
		return err
	}
	models, _, err := h.Library.Entries.Models.List(ctx, request.ScopeOf(ctx), entries.Filter{}, offered)
	if err != nil {
		return err
	}
	for _, one := range models {
		choice := targetChoice(one.Entry, modelDetail(one), one.Test, s.List("models"))
		choice.Price = saved.PriceText(one.Prices)
		view.Models = append(view.Models, choice)
	}
	agents, _, err := h.Library.Entries.Agents.List(ctx, request.ScopeOf(ctx), entries.Filter{}, offered)
	if err != nil {
		return err
	}
	for _, one := range agents {
		choice := targetChoice(one.Entry, protocol.LabelOf(one.Protocol), one.Test, s.List("agents"))
		choice.Price = saved.PriceText(one.Prices)
		view.Agents = append(view.Agents, choice)
	}
	for _, choices := range [][]taskpages.TargetChoice{view.Models, view.Agents} {
		slices.SortStableFunc(choices, func(a, b taskpages.TargetChoice) int { // entries whose last test failed come last
			return cmp.Or(chosenFirst(a.IsChosen, b.IsChosen), chosenFirst(b.HasFailed, a.HasFailed))
		})
	}
	return pages.Render(c, status, taskpages.ComparePage(h.compareFrame(c, s), view))
}

// listedVariants is the maximum number of variants that an estimate lists. It is larger than a task may have, so that
// the surplus ones can be seen.
const listedVariants = 100

// chosenFirst compares two choices so that the chosen ones come first.
func chosenFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func (h *Forms) compareFrame(c echo.Context, s *submission) ui.Frame {
	title := "compare.new.title"
	if s.isDraft {
		title = "create.draft.title"
	}
	frame := h.formFrame(c, title, ui.SectionTasks)
	frame.Styles = append(frame.Styles, "library.css")
	return frame
}

func targetChoice(entry entries.Entry, detail string, test entries.Test, chosen []string) taskpages.TargetChoice {
	return taskpages.TargetChoice{
		Reference: entry.ID.String(), Name: entry.Name, Detail: detail, HasFailed: test.HasFailed(),
		IsChosen: slices.Contains(chosen, entry.ID.String()),
	}
}

// promptChoices returns the saved prompts with their versions. If a prompt was chosen without a version, its newest
// version is marked as chosen.
func (h *Forms) promptChoices(ctx context.Context, locale text.Locale,
	chosen []string) (choices []taskpages.PromptChoice, err error) {
	prompts, _, err := h.Library.Entries.Prompts.List(ctx, request.ScopeOf(ctx), entries.Filter{}, offered)
	if err != nil {
		return nil, err
	}
	ids := make([]uuid.UUID, len(prompts))
	for n, one := range prompts {
		ids[n] = one.ID
	}
	versions, err := h.Library.Entries.PromptNotes(ctx, request.ScopeOf(ctx), ids...)
	if err != nil {
		return nil, err
	}
	for _, one := range prompts {
		choice := taskpages.PromptChoice{Name: one.Name}
		line := saved.TemplateLine(locale, one.System, one.User)
		for n, version := range versions[one.ID] {
			reference := fmt.Sprintf("%s@%d", one.ID, version.Version)
			note := version.Note
			if n == 0 && note == "" {
				note = line
			}
			isChosen := slices.Contains(chosen, reference) || n == 0 && slices.Contains(chosen, one.ID.String())
			choice.Versions = append(choice.Versions,
				taskpages.VersionChoice{Reference: reference, Number: version.Version, Note: note, IsChosen: isChosen})
		}
		choices = append(choices, choice)
	}
	isChosen := func(p taskpages.PromptChoice) bool {
		return slices.ContainsFunc(p.Versions, func(v taskpages.VersionChoice) bool { return v.IsChosen })
	}
	slices.SortStableFunc(choices, func(a, b taskpages.PromptChoice) int { return chosenFirst(isChosen(a), isChosen(b)) })
	return choices, nil
}

// estimateComparison shows how many calls the comparison in a form takes, and its estimated duration and cost.
func (h *Forms) estimateComparison(c echo.Context) error {
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return err
	}
	s, err := h.check(c, submitted.With("form", taskpages.CompareForm))
	if err != nil {
		return err
	}
	s, preview := h.preview(c, s)
	if request.IsFragment(c.Request()) {
		estimate, err := h.estimated(c, s)
		if err != nil {
			return err
		}
		return pages.Render(c, http.StatusOK, taskpages.EstimatePart(estimate))
	}
	view, err := h.formView(c, s)
	if err != nil {
		return err
	}
	view.Preview = preview
	return h.renderForm(c, http.StatusOK, s, view)
}

// estimated returns an estimate for the task in a form, from the fields that are filled in so far.
func (h *Forms) estimated(c echo.Context, s *submission) (taskpages.Estimated, error) {
	l, n := pages.Locale(c), s.task
	e := taskpages.Estimated{Runs: n.RunsPerItem, Calls: n.Calls(), JudgeCalls: n.JudgeCalls()}
	if n.VariantCount() <= listedVariants {
		e.Variants = n.AllVariants()
	}
	if n.Dataset != nil {
		e.Questions = len(n.Dataset.Rows)
	}
	typed := map[string]bool{"agent_api_url": s.Value("agent_api_url") != ""}
	for _, name := range []string{"prompts", "models", "agents", "dataset", "evaluators", "rate_limit", "runs_per_item",
		"concurrency", "agent_api_headers", "extra_payload"} {
		typed[name] = true
	}
	for _, f := range s.faults {
		if typed[f.Field] {
			e.Problems = append(e.Problems, f.Message(l))
		}
	}
	if n.VariantCount() > tasks.MaxVariants || e.Calls > tasks.MaxCalls {
		e.Problems = append(e.Problems, request.NewFault(request.CodeTaskTooLarge).Message(l))
	}
	if len(e.Problems) > 0 || e.Calls == 0 {
		return e, nil
	}
	estimate, err := h.Tasks.Estimate(c.Request().Context(), request.ScopeOf(c.Request().Context()), n)
	if err != nil {
		return e, err
	}
	e.Duration, e.IsUnpriced, e.Design = estimate.Duration, estimate.IsUnpriced, designOf(n, estimate)
	if estimate.Cost != nil {
		e.Cost = amount(*estimate.Cost, estimate.Currency)
	}
	e.AtMost = atMost(l, estimate)
	for _, warning := range estimate.Warnings {
		e.Warnings = append(e.Warnings, form.WarningText(l, warning))
	}
	return e, nil
}

// atMost returns a text about the maximum number of calls and cost of a task with adaptive runs; empty for other tasks.
func atMost(l text.Locale, e tasks.Estimate) string {
	if e.AtMost == nil {
		return ""
	}
	calls := text.Number(e.AtMost.Calls + e.AtMost.JudgeCalls)
	if e.AtMost.Cost == nil {
		return l.Text("create.adaptive.most", "Calls", calls)
	}
	return l.Text("create.adaptive.most.cost", "Calls", calls, "Cost", amount(*e.AtMost.Cost, e.Currency))
}

// amount formats an estimated cost, with at least two significant digits and its currency.
func amount(cost decimal.Decimal, currency string) string {
	return cost.Round(significant(cost)).String() + " " + currency
}

// significant returns the number of decimal places to which a cost is rounded so that it keeps at least two significant
// digits.
func significant(cost decimal.Decimal) int32 {
	return max(0, 2-int32(cost.NumDigits())-cost.Exponent())
}

// saveTypedAgent saves the agent that was typed into a form in the library.
func (h *Forms) saveTypedAgent(c echo.Context) error {
	s, err := h.readSubmission(c)
	if err != nil {
		return err
	}
	saved := taskpages.SavedAgent{Message: s.agentProblem(pages.Locale(c))}
	if saved.Message == "" && s.task.AgentURL == "" {
		saved.Message = request.NewFault(request.CodeAgentURLRequired).Message(pages.Locale(c))
	}
	if saved.Message == "" {
		typed := s.task
		// The payload of a copied task may be secret, and the library shows payloads.
		if s.Value("extra_payload") == "" {
			typed.Payload = nil
		}
		row, err := h.Library.SaveTyped(c.Request().Context(), request.ScopeOf(c.Request().Context()), typed)
		if err != nil {
			return err
		}
		saved.Name, saved.Href = row.Name, paths.LibraryEntry(agentsKind, row.ID)
	}
	return pages.Render(c, http.StatusOK, taskpages.AgentSavedPart(saved))
}

// saveAgentOf saves the agent that was typed into a task in the library.
func (h *Forms) saveAgentOf(c echo.Context) error {
	task, err := request.Task(c.Request().Context(), h.Store, c.Param("taskId"))
	if err != nil {
		return err
	}
	n, err := h.Tasks.CopySettings(c.Request().Context(), task)
	if err != nil {
		return err
	}
	if n.AgentURL == "" {
		return request.NewFault(request.CodeNotFound)
	}
	n.Payload = nil // the payload may be secret, and the library shows payloads
	row, err := h.Library.SaveTyped(c.Request().Context(), request.ScopeOf(c.Request().Context()), n)
	if err != nil {
		return err
	}
	return pages.Done(c, paths.LibraryEntry(agentsKind, row.ID), "stored")
}

// startDemoComparison creates a task that compares two prompts on the two models that the demo agent imitates.
func (h *Forms) startDemoComparison(c echo.Context) error {
	if h.DemoModelsURL == "" {
		return request.NewFault(request.CodeNotFound)
	}
	const name = "sample.csv"
	l := pages.Locale(c)
	id, err := h.Library.CreateDemo(c.Request().Context(), request.ScopeOf(c.Request().Context()), pages.Actor(c),
		library.Demo{
			BaseURL: h.DemoModelsURL, Headers: guard.Ticket(h.DemoTicket),
			Questions: tasks.File{Name: name, Content: static.Content(name)},
			TaskName:  l.Text("demo.task"), ProviderName: l.Text("demo.provider"), Currency: "CNY",
			Models: []library.DemoModel{
				{Name: l.Text("demo.large"), ID: "demo-large", InputPrice: "8", OutputPrice: "24"},
				{Name: l.Text("demo.small"), ID: "demo-small", InputPrice: "0.5", OutputPrice: "1.5"},
			},
			EvaluatorName: l.Text("demo.evaluator"),
			Judge: library.DemoModel{Name: l.Text("demo.judge.model"), ID: "demo-judge", InputPrice: "1",
				OutputPrice: "3"},
			JudgeName: l.Text("demo.judge"), JudgePrompt: evaluate.DefaultJudgePrompt(l.Lang != "en"),
			// The demo's models recognise the words "只回答" ("answer only") in the first prompt.
			Prompts: []library.DemoPrompt{
				{Name: l.Text("demo.short"), System: "只回答最后的结果，不要解释。", User: "{{question}}"},
				{Name: l.Text("demo.reasoned"), System: "请先分析，再给出结论。", User: "{{question}}"},
			},
		})
	if err != nil {
		return err
	}
	return pages.Done(c, paths.Task(id), "created")
}
