package library

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/entries"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/agent"
	"wending/jobs/agent/protocol"
	"wending/jobs/library"
	"wending/jobs/tasks"
	"wending/views/saved"
	"wending/views/ui"
)

func (h *handler) agents() kind[entries.Agent] {
	rows := h.Library.Entries.Agents
	return kind[entries.Agent]{
		kind: saved.Agents, rows: rows, entry: func(a entries.Agent) entries.Entry { return a.Entry },
		cells: func(c echo.Context, a entries.Agent) []saved.Cell {
			return []saved.Cell{{Text: protocol.LabelOf(a.Protocol)}, {Text: a.URL, Class: "cut"},
				{Text: h.rateText(c, a.RateLimit)}, testCell(c, a.Test)}
		},
		fill: h.fillAgent, save: h.saver.Agent, remove: removing(rows), address: "url", secrets: []string{"headers"},
	}
}

func (h *handler) fillAgent(c echo.Context, view *saved.Form, row *entries.Agent) error {
	view.Protocols, view.RetryKinds = protocols(false), agent.RetryKinds
	if row == nil {
		put(view, map[string]string{"retry_on": strings.Join(agent.RetryKinds, ","),
			"currency": pages.Locale(c).Text("library.currency.default")})
		return nil
	}
	a, err := form.Opened(h.Library.OpenAgent(*row))
	if err != nil {
		return err
	}
	if row.SealedQuery != nil {
		view.Saved["query"] = "?"
		if _, isSubmitted := view.Values["id"]; !isSubmitted {
			view.Values["keep_query"] = "true"
		}
	}
	view.Saved["headers"] = strings.Join(slices.Sorted(maps.Keys(a.Headers)), ", ")
	put(view, map[string]string{
		"poll": tasks.TextOf(row.Poll),
		"name": row.Name, "protocol": row.Protocol, "url": row.URL, "extra_payload": string(a.ExtraPayload),
		"body_template": string(a.Template),
		"rate_limit":    tasks.TextOf(row.RateLimit), "retry_on": strings.Join(row.RetryOn, ","),
		"input_price": a.InputPrice, "output_price": a.OutputPrice, "currency": a.Currency,
	})
	return nil
}

func (h *handler) models() kind[entries.Model] {
	rows := h.Library.Entries.Models
	return kind[entries.Model]{
		kind: saved.Models, rows: rows, entry: func(m entries.Model) entries.Entry { return m.Entry }, cells: modelCells,
		fill: h.fillModel, save: h.saver.Model, remove: removing(rows),
	}
}

func modelCells(c echo.Context, m entries.Model) []saved.Cell {
	price := saved.PriceText(m.Prices)
	if price == "" {
		price = "–"
	}
	provider := m.ProviderName + " · " + protocol.LabelOf(m.ProviderProtocol)
	return []saved.Cell{{Text: provider}, {Text: m.ModelID, Class: "mono cut"}, {Text: price}, testCell(c, m.Test)}
}

func (h *handler) fillModel(c echo.Context, view *saved.Form, row *entries.Model) error {
	providers, _, err := h.Library.Entries.Providers.List(c.Request().Context(), request.ScopeOf(c.Request().Context()),
		entries.Filter{}, db.Page{Number: 1, Size: 100})
	if err != nil {
		return err
	}
	for _, p := range providers {
		view.Providers = append(view.Providers,
			ui.Choice{Value: p.ID.String(), Label: p.Name + " · " + protocol.LabelOf(p.Protocol)})
	}
	if row == nil {
		values := map[string]string{"provider_id": c.QueryParam("provider"),
			"currency": pages.Locale(c).Text("library.currency.default")}
		if len(providers) == 1 {
			values["provider_id"] = providers[0].ID.String()
		}
		put(view, values)
		return nil
	}
	if !slices.ContainsFunc(view.Providers, func(choice ui.Choice) bool {
		return choice.Value == row.ProviderID.String()
	}) {
		archived, err := h.Library.Entries.Providers.Get(c.Request().Context(), request.ScopeOf(c.Request().Context()),
			row.ProviderID)
		if err != nil {
			return err
		}
		view.Providers = append(view.Providers,
			ui.Choice{Value: archived.ID.String(), Label: archived.Name + " · " + pages.Locale(c).Text("library.archived")})
	}
	m, err := form.Opened(h.Library.OpenModel(*row))
	if err != nil {
		return err
	}
	put(view, map[string]string{
		"name": row.Name, "provider_id": row.ProviderID.String(), "model_id": row.ModelID, "parameters": string(m.Parameters),
		"input_price": m.InputPrice, "output_price": m.OutputPrice, "currency": m.Currency,
	})
	return nil
}

// testModel sends a question to the model that the form describes, saved or not.
func (h *handler) testModel(c echo.Context) error {
	return test(c, h, h.models(), trial[entries.Model, library.Model]{
		read: h.saver.ReadModel, open: h.Library.OpenModel,
		ask: func(ctx context.Context, m library.Model, question string) (library.Tested, error) {
			return h.Library.TryModel(ctx, request.ScopeOf(ctx), m, question)
		},
	})
}

// testAgent sends a question to the agent that the form describes, saved or not.
func (h *handler) testAgent(c echo.Context) error {
	return test(c, h, h.agents(), trial[entries.Agent, library.Agent]{
		read: func(_ context.Context, row *entries.Agent, f *form.Upload) (library.Agent, []form.FieldFault, error) {
			return h.saver.ReadAgent(row, f)
		},
		open: h.Library.OpenAgent, ask: h.Library.TryAgent,
	})
}

// trial holds the functions that try a model or an agent: read parses its form, open decrypts its row, and ask calls
// it.
type trial[T, V any] struct {
	read func(ctx context.Context, row *T, f *form.Upload) (V, []form.FieldFault, error)
	open func(row T) (V, error)
	ask  func(ctx context.Context, target V, question string) (library.Tested, error)
}

// submittedRow returns the entry that a form changes; nil for a new one.
func (k kind[T]) submittedRow(c echo.Context, submitted *form.Upload) (*T, error) {
	if submitted.Value("id") == "" {
		return nil, nil
	}
	return k.named(c, submitted.Value("id"))
}

// test makes a test call with the target in the form and shows its outcome. The outcome is stored if the target is
// equal to the saved one.
func test[T, V any](c echo.Context, h *handler, k kind[T], t trial[T, V]) error {
	ctx := c.Request().Context()
	submitted, err := h.read(c, k.address, k.secrets)
	if err != nil {
		return err
	}
	row, err := k.submittedRow(c, submitted)
	if err != nil {
		return err
	}
	target, faults, err := t.read(ctx, row, submitted)
	if err != nil {
		return err
	}
	probe := ui.Probe{}
	for _, f := range faults {
		if f.Field != "name" && probe.Message == "" {
			probe.Message = pages.Locale(c).Text("library.test.first", "Reason", f.Message(pages.Locale(c)))
		}
	}
	if probe.Message == "" {
		tested, err := h.asked(c, submitted, func(question string) (library.Tested, error) {
			return t.ask(ctx, target, question)
		})
		switch {
		case err != nil && request.IsInternal(err):
			return err
		case err != nil:
			probe.Message = request.FaultOf(err).Message(pages.Locale(c))
		default:
			probe = probeOf(tested)
			if err := note(ctx, k, row, t.open, target, tested); err != nil {
				return err
			}
		}
	}
	if request.IsFragment(c.Request()) {
		return pages.Render(c, http.StatusOK, ui.ProbePart(&probe))
	}
	view, err := k.form(c, h, row, submitted, nil)
	if err != nil {
		return err
	}
	view.Probe = &probe
	return h.render(c, http.StatusOK, view)
}

// note stores the outcome of a test if the tested target is equal to the saved one.
func note[T, V any](ctx context.Context, k kind[T], row *T, open func(T) (V, error), target V,
	tested library.Tested) error {
	if row == nil {
		return nil
	}
	// A saved target whose secrets cannot be opened differs from the tested one, for which they were typed again.
	if stored, err := open(*row); err == nil && reflect.DeepEqual(stored, target) {
		return library.NoteTest(ctx, request.ScopeOf(ctx), k.rows, k.entry(*row).ID, tested)
	}
	return nil
}

// asked makes a call with the form's question, once a slot at the gate is free.
func (h *handler) asked(c echo.Context, submitted *form.Upload,
	ask func(question string) (library.Tested, error)) (library.Tested, error) {
	leave, err := pages.Gates(c).Probes.Enter(c.Request().Context())
	if err != nil {
		return library.Tested{}, err
	}
	defer leave()
	return ask(form.TestQuestion(submitted, pages.Locale(c)))
}

func probeOf(t library.Tested) ui.Probe {
	probe := pages.Probe(t.Answer)
	probe.FirstToken, probe.InputTokens, probe.OutputTokens = t.FirstToken, t.Usage.Input, t.Usage.Output
	return probe
}

// detect finds the protocol of the agent that a form describes, by calling it, and shows the outcome.
func (h *handler) detect(c echo.Context) error {
	ctx, k := c.Request().Context(), h.agents()
	submitted, err := h.read(c, k.address, k.secrets)
	if err != nil {
		return err
	}
	row, err := k.submittedRow(c, submitted)
	if err != nil {
		return err
	}
	base, err := form.Base(row, h.Library.OpenAgent)
	if err != nil {
		return err
	}
	address, faults := form.Address(submitted, base, h.Check.URL)
	detected := &saved.Detected{}
	if len(faults) > 0 {
		detected.Message = faults[0].Message(pages.Locale(c))
	} else {
		tested, err := h.asked(c, submitted, func(question string) (library.Tested, error) {
			return h.Library.Detect(ctx, address.URL, address.Headers, address.ExtraPayload, question)
		})
		switch {
		case err != nil && request.IsInternal(err):
			return err
		case err != nil:
			detected.Message = request.FaultOf(err).Message(pages.Locale(c))
		default:
			detected.Protocol, detected.Label, detected.Answer = tested.Protocol, protocol.LabelOf(tested.Protocol), tested.Text
		}
	}
	if request.IsFragment(c.Request()) {
		return pages.Render(c, http.StatusOK, saved.DetectedPart(detected))
	}
	view, err := k.form(c, h, row, submitted, nil)
	if err != nil {
		return err
	}
	if detected.Protocol != "" {
		view.Values["protocol"] = detected.Protocol
	}
	view.Detected = detected
	return h.render(c, http.StatusOK, view)
}
