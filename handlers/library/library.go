// Package library implements the pages and endpoints of the library: the entries saved for use in tasks with their
// versions and tests, channels, and schedules.
package library

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
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
	"wending/views/paths"
	"wending/views/saved"
	"wending/views/ui"
)

// Config holds the dependencies of the pages and endpoints.
type Config struct {
	Library *library.Service
	Check   form.Check
	// Questions and Keeper are used only by pages.
	Questions pages.Questions
	Keeper    form.Keeper
	// HasDemo reports that the demo's models are available for a comparison.
	HasDemo bool
	Version string
	// Failed logs and reports an internal error.
	Failed func(ctx context.Context, err error)
}

type handler struct {
	Config
	saver form.Saver
}

// usesShown is the maximum number of an entry's uses that its page lists.
const usesShown = 10

// RegisterPages registers the pages in the group compressed, and the downloads in the group plain.
func RegisterPages(compressed, plain *echo.Group, config Config) {
	h := &handler{config, form.Saver{Library: config.Library, Check: config.Check}}
	stored := h.Library.Entries
	compressed.GET(paths.Library, func(c echo.Context) error {
		return c.Redirect(http.StatusSeeOther, paths.LibraryKind(string(saved.Prompts)))
	})
	compressed.POST(paths.LibraryTest(string(saved.Models)), h.testModel)
	compressed.POST(paths.LibraryTest(string(saved.Agents)), h.testAgent)
	compressed.POST(paths.LibraryDetect, h.detect)
	compressed.POST(paths.LibraryPreview, h.previewPrompt)
	compressed.POST(paths.LibraryTest(string(saved.Evaluators)), h.tryEvaluator)
	h.prompts().register(compressed, h)
	h.models().register(compressed, h)
	kind[entries.Provider]{
		kind: saved.Providers, rows: stored.Providers, entry: func(p entries.Provider) entries.Entry {
			return p.Entry
		}, cells: h.providerCells,
		fill: h.fillProvider, save: h.saver.Provider, remove: removing(stored.Providers), address: "base_url",
		secrets: []string{"api_key", "headers"},
	}.register(compressed, h)
	h.agents().register(compressed, h)
	h.datasets().register(compressed, h)
	h.evaluators().register(compressed, h)
	h.channels().register(compressed, h)
	compressed.POST(paths.ScheduleTimes, h.showTimes)
	h.schedules().register(compressed, h)
	compressed.POST("/library/channels/:id/test", h.testChannel)
	compressed.POST("/library/channels/:id/deliveries/:delivery", h.sendAgain)
	compressed.GET("/library/prompts/:id/versions/:number", h.showPromptVersion)
	compressed.GET("/library/datasets/:id/versions/:number", h.showDatasetVersion)
	compressed.POST("/library/datasets/:id/versions", h.addDatasetVersion)
	plain.GET("/library/datasets/:id/versions/:number/file", h.downloadVersion)
}

// kind describes the pages of one kind of entry.
type kind[T any] struct {
	kind  saved.Kind
	rows  entries.Kind[T]
	entry func(T) entries.Entry
	// cells returns an entry's cells in a list, for the columns that its kind has.
	cells func(c echo.Context, row T) []saved.Cell
	// fill adds the values of row (nil for a new entry) and the choices that the library offers to the form. It does not
	// overwrite typed values.
	fill func(c echo.Context, f *saved.Form, row *T) error
	// save stores the values of a form in row, or in a new entry if row is nil, and returns the entry's id.
	save   func(ctx context.Context, row *T, f *form.Upload) (uuid.UUID, []form.FieldFault, error)
	remove func(ctx context.Context, scope db.Scope, id uuid.UUID) error
	// secrets are the fields that pages never show; address is the field with the address to which they are sent.
	secrets []string
	address string
}

func (k kind[T]) register(group *echo.Group, h *handler) {
	path := paths.LibraryKind(string(k.kind))
	group.GET(path, func(c echo.Context) error { return k.list(c, h) })
	group.GET(path+"/new", func(c echo.Context) error { return k.show(c, h, nil, form.New(map[string]string{}), nil) })
	group.POST(path, func(c echo.Context) error { return k.store(c, h, nil) })
	withEntry := func(handle func(c echo.Context, row *T) error) echo.HandlerFunc {
		return func(c echo.Context) error {
			row, err := k.named(c, c.Param("id"))
			if err != nil {
				return err
			}
			return handle(c, row)
		}
	}
	group.GET(path+"/:id", withEntry(func(c echo.Context, row *T) error {
		return k.show(c, h, row, form.New(map[string]string{}), nil)
	}))
	group.POST(path+"/:id", withEntry(func(c echo.Context, row *T) error { return k.store(c, h, row) }))
	group.POST(path+"/:id/remove", withEntry(func(c echo.Context, row *T) error {
		ctx, id := c.Request().Context(), k.entry(*row).ID
		if err := k.remove(ctx, request.ScopeOf(ctx), id); err != nil {
			return err
		}
		if _, err := k.rows.Get(ctx, request.ScopeOf(ctx), id); errors.Is(err, db.ErrNotFound) {
			return pages.Done(c, path, "removed")
		}
		return pages.Done(c, paths.LibraryEntry(string(k.kind), id), "archived")
	}))
	group.POST(path+"/:id/restore", withEntry(func(c echo.Context, row *T) error {
		id := k.entry(*row).ID
		if err := k.rows.Restore(c.Request().Context(), request.ScopeOf(c.Request().Context()), id); err != nil {
			return err
		}
		return pages.Done(c, paths.LibraryEntry(string(k.kind), id), "restored")
	}))
}

// named returns the entry with the id in text.
func (k kind[T]) named(c echo.Context, text string) (*T, error) {
	id, err := request.ID(text, entries.KindEntry)
	if err != nil {
		return nil, err
	}
	row, err := k.rows.Get(c.Request().Context(), request.ScopeOf(c.Request().Context()), id)
	return &row, err
}

// removing returns the remove function of a kind whose entries have no files or other data besides their rows.
func removing[T any](rows entries.Kind[T]) func(context.Context, db.Scope, uuid.UUID) error {
	return func(ctx context.Context, scope db.Scope, id uuid.UUID) error {
		_, err := rows.Remove(ctx, scope, id)
		return err
	}
}

// list shows a page of the list of entries.
func (k kind[T]) list(c echo.Context, h *handler) error {
	ctx := c.Request().Context()
	window, err := pages.Window(c)
	if err != nil {
		return err
	}
	list := saved.List{Kind: k.kind, Query: request.SearchText(c.QueryParam("query")), HasDemo: h.HasDemo}
	if list.Archived, err = pages.Flag(c, "archived"); err != nil {
		return err
	}
	found, total, err := k.rows.List(ctx, request.ScopeOf(ctx),
		entries.Filter{NameContains: list.Query, Archived: list.Archived}, window)
	if err != nil {
		return err
	}
	query := url.Values{}
	if list.Query != "" {
		query.Set("query", list.Query)
	}
	if list.Archived {
		query.Set("archived", "true")
	}
	list.Pager = pages.NewPager(paths.LibraryKind(string(k.kind)), query, window, total)
	if redirected, err := pages.RedirectPastEnd(c, list.Pager); redirected {
		return err
	}
	if total == 0 && list.Query == "" && !list.Archived {
		_, archived, err := k.rows.List(ctx, request.ScopeOf(ctx), entries.Filter{Archived: true},
			db.Page{Number: 1, Size: 1})
		if err != nil {
			return err
		}
		list.IsEmpty = archived == 0
	}
	if list.IsEmpty && k.kind == saved.Models {
		_, providers, err := h.Library.Entries.Providers.List(ctx, request.ScopeOf(ctx), entries.Filter{},
			db.Page{Number: 1, Size: 1})
		if err != nil {
			return err
		}
		list.NeedsProvider = providers == 0
	}
	for _, row := range found {
		entry := k.entry(row)
		list.Rows = append(list.Rows, saved.Row{ID: entry.ID, Name: entry.Name, Cells: k.cells(c, row),
			UpdatedAt: entry.UpdatedAt})
	}
	frame := pages.Frame(c, h.Version, pages.Locale(c).Text("library."+string(k.kind)), k.kind.Section())
	frame.Styles = []string{"list.css", "library.css"}
	return pages.Render(c, http.StatusOK, saved.ListPage(frame, list))
}

// read parses a submitted form, and opens the secrets that it carries in sealed form.
func (h *handler) read(c echo.Context, address string, secrets []string) (*form.Upload, error) {
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return nil, err
	}
	for _, name := range secrets {
		var value string
		if submitted.Value(name) == "" && h.Keeper.Open(pages.Browser(c), submitted.Value(address),
			submitted.Values[name+"_sealed"], &value) {
			submitted = submitted.With(name, value)
		}
	}
	return submitted, nil
}

// store saves a form, and redirects to the entry's page or shows the form again with its errors. A form that was sent
// to switch the language is shown again without being saved.
func (k kind[T]) store(c echo.Context, h *handler, row *T) error {
	ctx := c.Request().Context()
	submitted, err := h.read(c, k.address, k.secrets)
	if err != nil {
		return err
	}
	if lang := submitted.Value("lang"); lang != "" {
		if err := pages.SwitchLanguage(c, lang); err != nil {
			return err
		}
		return k.show(c, h, row, submitted, nil)
	}
	if err := h.admit(c, submitted); err != nil {
		return err
	}
	id, faults, err := uuid.Nil, []form.FieldFault(nil), submitted.Refused
	if err == nil {
		id, faults, err = k.save(ctx, row, submitted)
	}
	if err != nil {
		if request.IsInternal(err) {
			h.Failed(ctx, err)
		}
		faults = []form.FieldFault{{Fault: request.FaultOf(err)}}
	}
	if len(faults) > 0 {
		return k.show(c, h, row, submitted, faults)
	}
	h.Questions.Staging.Drop(ctx, pages.Browser(c), submitted.Value("dataset_token"))
	return pages.Done(c, paths.LibraryEntry(string(k.kind), id), "stored")
}

// admit takes a slot at the gate for a form with a file; if the file is staged, it also loads it into the form.
func (h *handler) admit(c echo.Context, submitted *form.Upload) error {
	ctx, token := c.Request().Context(), submitted.Value("dataset_token")
	if submitted.File == nil && token == "" {
		return nil
	}
	if err := submitted.Admit(ctx, pages.Gates(c).Files); err != nil || submitted.Refused != nil || submitted.File != nil {
		return err
	}
	staged, err := h.Questions.Staging.Get(ctx, pages.Browser(c), token)
	submitted.File = staged
	return err
}

// show shows the form for an entry, or for a new one if row is nil, with what was typed, the stored values, and the
// errors.
func (k kind[T]) show(c echo.Context, h *handler, row *T, submitted *form.Upload, faults []form.FieldFault) error {
	view, err := k.form(c, h, row, submitted, faults)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if len(faults) > 0 {
		status = http.StatusUnprocessableEntity
		for _, f := range faults {
			status = max(status, f.Status())
		}
		if faults[0].Status() == http.StatusForbidden {
			status = http.StatusForbidden
		}
	}
	return h.render(c, status, view)
}

func (h *handler) render(c echo.Context, status int, view saved.Form) error {
	return pages.Render(c, status, saved.EntryPage(h.frame(c, view), view))
}

// form returns the view of the form for an entry. Secrets that were typed are sealed in it.
func (k kind[T]) form(c echo.Context, h *handler, row *T, submitted *form.Upload,
	faults []form.FieldFault) (saved.Form, error) {
	ctx, l := c.Request().Context(), pages.Locale(c)
	view := saved.Form{Kind: k.kind, Values: maps.Clone(submitted.Values), Errors: map[string]string{},
		Kept: map[string]string{}, Saved: map[string]string{}}
	for _, name := range k.secrets {
		if typed := submitted.Value(name); typed != "" {
			view.Kept[name] = h.Keeper.Keep(pages.Browser(c), submitted.Value(k.address), typed)
			if view.Kept[name] != "" && !slices.ContainsFunc(faults, func(f form.FieldFault) bool { return f.Field == name }) {
				delete(view.Values, name) // an invalid value stays visible, to be corrected
			}
		}
	}
	for _, f := range faults {
		if f.Field == "" {
			view.Errors[""] = f.Message(l)
		} else {
			view.Errors[f.Field] = f.Beside(l)
		}
	}
	if row != nil {
		entry := k.entry(*row)
		view.Entry = &entry
		var err error
		if view.Uses, view.UsesTotal, err = k.rows.Uses(ctx, request.ScopeOf(ctx), entry.ID, usesShown); err != nil {
			return view, err
		}
	}
	if err := k.fill(c, &view, row); err != nil {
		return view, err
	}
	if k.kind == saved.Datasets && row == nil {
		view.Preview = h.previewFile(c, submitted, &view)
	}
	return view, nil
}

// frame returns the frame of the page with the form for an entry.
func (h *handler) frame(c echo.Context, view saved.Form) ui.Frame {
	l := pages.Locale(c)
	title := l.Text("library.new." + string(view.Kind))
	action := paths.LibraryKind(string(view.Kind))
	if view.Entry != nil {
		title, action = view.Entry.Name, paths.LibraryEntry(string(view.Kind), view.Entry.ID)
	}
	frame := pages.Frame(c, h.Version, title, view.Kind.Section(), h.crumbs(c, view.Kind, ui.Crumb{Text: title})...)
	frame.Styles, frame.Scripts = []string{"form.css", "library.css"}, []string{"library.js"}
	if view.Trend != nil {
		frame.Styles = append(frame.Styles, "report.css")
	}
	if view.Kind == saved.Datasets && view.Entry == nil {
		frame.Scripts = append(frame.Scripts, "file_field.js")
	}
	frame.FormID, frame.FormLanguage = saved.FormID, action
	return frame
}

// crumbs returns the breadcrumbs from the library through a kind to one of its pages.
func (h *handler) crumbs(c echo.Context, kind saved.Kind, more ...ui.Crumb) []ui.Crumb {
	l := pages.Locale(c)
	list := ui.Crumb{Text: l.Text("library." + string(kind)), Href: paths.LibraryKind(string(kind))}
	switch kind.Section() {
	case ui.SectionSchedules:
		return append([]ui.Crumb{list}, more...)
	case ui.SectionSystem:
		return append([]ui.Crumb{{Text: l.Text("nav.system"), Href: paths.Workers}, list}, more...)
	}
	return append([]ui.Crumb{{Text: l.Text("library.title"), Href: paths.Library}, list}, more...)
}

// put adds stored values to a form, except for fields that were typed.
func put(view *saved.Form, values map[string]string) {
	for name, value := range values {
		if _, isTyped := view.Values[name]; !isTyped {
			view.Values[name] = value
		}
	}
}

func protocols(isOfModels bool) (choices []ui.Choice) {
	for _, one := range protocol.All {
		if !isOfModels || one.IsOfModels() {
			choices = append(choices, ui.Choice{Value: one.Name, Label: one.Label})
		}
	}
	return choices
}

// rateText returns a rate limit as pages show it, or the installation's default.
func (h *handler) rateText(c echo.Context, rate *string) string {
	locale := pages.Locale(c)
	if rate == nil {
		return locale.Text("library.rate.default", "Rate", ui.Rate(locale, h.Library.DefaultRate))
	}
	return ui.Rate(locale, *rate)
}

// testCell returns the cell that shows how the last test of a target ended.
func testCell(c echo.Context, test entries.Test) saved.Cell {
	l := pages.Locale(c)
	switch {
	case test.TestedAt == nil:
		return saved.Cell{Text: l.Text("library.test.never"), Class: "quiet"}
	case test.HasFailed():
		return saved.Cell{Text: (ui.Failure{Code: *test.TestCode}).ShownCode(), Status: "FAILED"}
	}
	return saved.Cell{Text: l.Text("library.test.ok"), Status: "SUCCEEDED"}
}

func (h *handler) providerCells(c echo.Context, p entries.Provider) []saved.Cell {
	key := pages.Locale(c).Text("library.key.none")
	if p.SealedKey != nil {
		key = pages.Locale(c).Text("library.key.saved")
	}
	rate := h.rateText(c, p.RateLimit)
	return []saved.Cell{{Text: protocol.LabelOf(p.Protocol)}, {Text: p.BaseURL, Class: "cut"}, {Text: key}, {Text: rate}}
}

func (h *handler) fillProvider(c echo.Context, view *saved.Form, row *entries.Provider) error {
	view.Protocols, view.RetryKinds = protocols(true), agent.RetryKinds
	if row == nil {
		put(view, map[string]string{"protocol": "openai", "retry_on": strings.Join(agent.RetryKinds, ",")})
		return nil
	}
	p, err := form.Opened(h.Library.OpenProvider(*row))
	if err != nil {
		return err
	}
	put(view, map[string]string{
		"name": row.Name, "protocol": row.Protocol, "base_url": row.BaseURL, "rate_limit": tasks.TextOf(row.RateLimit),
		"retry_on": strings.Join(row.RetryOn, ","),
	})
	if row.SealedKey != nil {
		view.Saved["api_key"] = pages.Locale(c).Text("library.key")
	}
	view.Saved["headers"] = strings.Join(slices.Sorted(maps.Keys(p.Headers)), ", ")
	return nil
}

// number parses the number of a version; if it is invalid, the error says that the version does not exist.
func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, request.NewFault(request.CodeNotFound)
	}
	return n, nil
}
