package library

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/entries"
	"wending/db/measure"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/agent/protocol"
	"wending/jobs/dataset"
	"wending/jobs/tasks"
	"wending/views/paths"
	"wending/views/saved"
	"wending/views/text"
	"wending/views/ui"
)

func (h *handler) prompts() kind[entries.Prompt] {
	rows := h.Library.Entries.Prompts
	return kind[entries.Prompt]{
		kind: saved.Prompts, rows: rows, entry: func(p entries.Prompt) entries.Entry { return p.Entry },
		cells: func(c echo.Context, p entries.Prompt) []saved.Cell {
			return []saved.Cell{{Text: "v" + strconv.Itoa(p.Version)},
				{Text: saved.TemplateLine(pages.Locale(c), p.System, p.User), Class: "cut quiet"}}
		},
		fill: h.fillPrompt, save: h.saver.Prompt, remove: removing(rows),
	}
}

// fillPrompt fills the form with the version of a prompt that the query names or, if it names none, with the newest.
func (h *handler) fillPrompt(c echo.Context, view *saved.Form, row *entries.Prompt) error {
	ctx := c.Request().Context()
	datasets, _, err := h.Library.Entries.Datasets.List(ctx, request.ScopeOf(ctx), entries.Filter{},
		db.Page{Number: 1, Size: 100})
	if err != nil {
		return err
	}
	for _, d := range datasets {
		view.Datasets = append(view.Datasets, ui.Choice{Value: d.ID.String(), Label: d.Name})
	}
	if row == nil {
		put(view, map[string]string{"user": "{{question}}"})
	} else {
		if view.Versions, err = h.promptVersions(ctx, row.ID); err != nil {
			return err
		}
		shown := row.PromptVersion
		wanted, err := versionAsked(c, "version", shown.Version)
		if err != nil {
			return err
		}
		if wanted != 0 && wanted != shown.Version {
			if shown, err = h.Library.Entries.PromptVersion(ctx, request.ScopeOf(ctx), row.ID, wanted); err != nil {
				return err
			}
		}
		put(view, map[string]string{"name": row.Name, "description": row.Description, "system": shown.System,
			"user": shown.User})
	}
	view.Rendered, err = h.rendered(c, view.Values)
	return err
}

// versionAsked returns the number of a version in a query's parameter, which must not exceed newest; 0 means that the
// parameter is absent.
func versionAsked(c echo.Context, name string, newest int) (number int, err error) {
	asked := c.QueryParam(name)
	if asked == "" {
		return 0, nil
	}
	if number, err = strconv.Atoi(asked); err != nil || number < 1 || number > newest {
		return 0, request.ParameterFault(name, request.Between(1, newest))
	}
	return number, nil
}

// promptVersions returns the versions of a prompt, newest first.
func (h *handler) promptVersions(ctx context.Context, id uuid.UUID) (versions []saved.Version, err error) {
	notes, err := h.Library.Entries.PromptNotes(ctx, request.ScopeOf(ctx), id)
	for _, note := range notes[id] {
		versions = append(versions, saved.Version{Number: note.Version, Note: note.Note, SavedAt: note.SavedAt})
	}
	return versions, err
}

// rendered returns the templates in a form, rendered with the row of a dataset that the form names, or with a default
// question.
func (h *handler) rendered(c echo.Context, values map[string]string) (saved.Rendered, error) {
	ctx, l := c.Request().Context(), pages.Locale(c)
	item, names := db.Item{QuestionID: "1", Question: l.Text("create.probe.default"),
		StandardAnswer: l.Text("library.preview.answer")}, []string(nil)
	r := saved.Rendered{}
	if id, err := uuid.Parse(values["preview_dataset"]); err == nil {
		saved, err := h.Library.Entries.Datasets.Get(ctx, request.ScopeOf(ctx), id)
		if err != nil {
			return r, err
		}
		set, err := h.readDataset(c, id, saved.DatasetVersion)
		if err != nil {
			return r, err
		}
		n, err := strconv.Atoi(values["preview_row"])
		if err != nil {
			n = 1
		}
		n = max(1, min(n, len(set.Rows)))
		row := set.Rows[n-1]
		item = db.Item{
			QuestionID: row.QuestionID, Question: row.Question, StandardAnswer: row.StandardAnswer,
			SystemPrompt: row.SystemPrompt, UserContext: row.UserContext,
			Variables: row.Variables,
		}
		names, r.Row = set.VariableNames, strconv.Itoa(n)+" / "+strconv.Itoa(len(set.Rows))
	}
	system, user := values["system"], values["user"]
	known := tasks.Values(item, names)
	r.Missing, r.Names = protocol.MissingNames(known, system, user), append(tasks.KnownNames(), names...)
	r.System, r.User = protocol.Render(system, known), protocol.Render(user, known)
	if system == "" {
		r.System = tasks.TextOf(item.SystemPrompt)
	}
	if user == "" {
		r.User = item.Question
	}
	r.System, r.User = text.Cut(r.System, 20_000), text.Cut(r.User, 20_000)
	return r, nil
}

// previewPrompt shows the templates in a form, rendered.
func (h *handler) previewPrompt(c echo.Context) error {
	k := h.prompts()
	submitted, err := h.read(c, "", nil)
	if err != nil {
		return err
	}
	if request.IsFragment(c.Request()) {
		rendered, err := h.rendered(c, submitted.Values)
		if err != nil {
			return err
		}
		return pages.Render(c, http.StatusOK, saved.RenderedPart(rendered))
	}
	row, err := k.submittedRow(c, submitted)
	if err != nil {
		return err
	}
	return k.show(c, h, row, submitted, nil)
}

// differenceTime is the maximum time for computing all differences on a page.
const differenceTime = 2 * time.Second

// pieces returns the difference between two texts in pieces; until limits how long computing it may take.
func pieces(before, after string, until time.Time) []measure.Piece {
	return measure.CompareTexts(before, after, time.Until(until)).Pieces(before, after)
}

// showPromptVersion shows a version of a prompt, with its differences from the previous version or from the one in the
// query.
func (h *handler) showPromptVersion(c echo.Context) error {
	ctx, k := c.Request().Context(), h.prompts()
	row, err := k.named(c, c.Param("id"))
	if err != nil {
		return err
	}
	wanted, err := number(c.Param("number"))
	if err != nil {
		return err
	}
	shown, err := h.Library.Entries.PromptVersion(ctx, request.ScopeOf(ctx), row.ID, wanted)
	if err != nil {
		return err
	}
	view := saved.Form{Kind: k.kind, Entry: &row.Entry}
	if view.Versions, err = h.promptVersions(ctx, row.ID); err != nil {
		return err
	}
	page := saved.PromptVersion{Form: view, Number: wanted, System: shown.System, User: shown.User}
	against, err := versionAsked(c, "against", row.Version)
	if err != nil {
		return err
	}
	if against == 0 || against == wanted {
		against = wanted - 1
	}
	if against >= 1 { // versions are numbered without gaps
		other, err := h.Library.Entries.PromptVersion(ctx, request.ScopeOf(ctx), row.ID, against)
		if err != nil {
			return err
		}
		until := time.Now().Add(differenceTime)
		page.Against = against
		page.SystemChanges, page.UserChanges = pieces(other.System, shown.System, until),
			pieces(other.User, shown.User, until)
	}
	title := row.Name + " v" + strconv.Itoa(wanted)
	frame := pages.Frame(c, h.Version, title, ui.SectionLibrary,
		h.crumbs(c, k.kind, ui.Crumb{Text: row.Name, Href: paths.LibraryEntry(string(k.kind), row.ID)},
			ui.Crumb{Text: "v" + strconv.Itoa(wanted)})...)
	frame.Styles = []string{"form.css", "library.css"}
	return pages.Render(c, http.StatusOK, saved.PromptVersionPage(frame, page))
}

func (h *handler) datasets() kind[entries.Dataset] {
	rows := h.Library.Entries.Datasets
	return kind[entries.Dataset]{
		kind: saved.Datasets, rows: rows, entry: func(d entries.Dataset) entries.Entry { return d.Entry },
		cells: func(_ echo.Context, d entries.Dataset) []saved.Cell {
			return []saved.Cell{{Text: "v" + strconv.Itoa(d.Version)}, {Text: text.Number(d.TotalItems)},
				{Text: d.FileName, Class: "cut quiet"}}
		},
		fill: func(c echo.Context, view *saved.Form, row *entries.Dataset) error {
			return h.fillDataset(c, view, row, 0)
		},
		save: h.saver.Dataset, remove: h.Library.RemoveDataset,
	}
}

// versionsShown is the maximum number of versions that the page of a dataset or an evaluator lists.
const versionsShown = 200

// fillDataset fills the form with the version of a dataset that has the given number or, if it is 0, with the newest.
func (h *handler) fillDataset(c echo.Context, view *saved.Form, row *entries.Dataset, number int) error {
	ctx := c.Request().Context()
	if row == nil {
		return nil
	}
	put(view, map[string]string{"name": row.Name, "description": row.Description})
	newest, err := h.Library.Entries.DatasetVersions(ctx, request.ScopeOf(ctx), row.ID,
		db.Page{Number: 1, Size: versionsShown})
	if err != nil {
		return err
	}
	for _, version := range newest {
		view.Versions = append(view.Versions, saved.Version{
			Number: version.Version, Note: version.Note, SavedAt: version.SavedAt, Questions: version.TotalItems,
		})
	}
	version := row.DatasetVersion
	if number != 0 {
		if version, err = h.Library.Entries.DatasetVersion(ctx, request.ScopeOf(ctx), row.ID, number); err != nil {
			return err
		}
	}
	window, err := pages.Window(c)
	if err != nil {
		return err
	}
	set, err := h.readDataset(c, row.ID, version)
	if err != nil {
		return err
	}
	content := saved.Content{DatasetVersion: version, VariableNames: set.VariableNames}
	content.Pager = pages.NewPager(c.Request().URL.Path, url.Values{}, window, len(set.Rows))
	first := min(window.Offset(), len(set.Rows))
	content.Rows = set.Rows[first:min(first+window.Size, len(set.Rows))]
	if version.Version > 1 {
		before, err := h.Library.Entries.DatasetVersion(ctx, request.ScopeOf(ctx), row.ID, version.Version-1)
		if err != nil {
			return err
		}
		old, err := h.readDataset(c, row.ID, before)
		if err != nil {
			return err
		}
		content.Changes = changed(before.Version, old, set)
	}
	view.Content = &content
	return nil
}

// changesShown is the maximum number of changed rows that a page lists, and changeShown is the maximum number of
// characters of a value in them.
const (
	changesShown = 100
	changeShown  = 2000
)

// readDataset returns the rows of a version of a dataset, which it reads once a slot at the gate for files is free.
func (h *handler) readDataset(c echo.Context, id uuid.UUID, version entries.DatasetVersion) (*dataset.Dataset, error) {
	leave, err := pages.Gates(c).Files.Enter(c.Request().Context())
	if err != nil {
		return nil, err
	}
	defer leave()
	_, set, err := h.Library.ReadDataset(c.Request().Context(), id, version)
	return set, err
}

// changed returns the differences between a version of a dataset and the previous one, whose number is from.
func changed(from int, before, after *dataset.Dataset) *saved.Changed {
	all := dataset.Changes(before, after)
	c := &saved.Changed{From: from, Total: len(all)}
	until := time.Now().Add(differenceTime)
	for _, change := range all {
		row := saved.ChangedRow{}
		switch {
		case change.Before == nil:
			c.Added++
			row.Kind, row.Number, row.Question = "added", change.After.Number, change.After.Question
		case change.After == nil:
			c.Removed++
			row.Kind, row.Number, row.Question = "removed", change.Before.Number, change.Before.Question
		default:
			c.Altered++
			row.Kind, row.Number, row.Question = "altered", change.After.Number, change.After.Question
		}
		if len(c.Rows) == changesShown {
			continue
		}
		for _, field := range change.Fields {
			before, after := text.Cut(field.Before, changeShown), text.Cut(field.After, changeShown)
			row.Fields = append(row.Fields, saved.ChangedField{Column: field.Column, Pieces: pieces(before, after, until)})
		}
		c.Rows = append(c.Rows, row)
	}
	c.Unaltered = len(after.Rows) - c.Added - c.Altered
	return c
}

// previewFile returns a preview of the file in the form for a new dataset; nil if there is none.
func (h *handler) previewFile(c echo.Context, submitted *form.Upload, view *saved.Form) *ui.Preview {
	if submitted.File == nil {
		return nil
	}
	chosen := pages.Chosen{File: submitted.File.File}
	chosen.Layout, _ = form.Layout(submitted) // the form already reports an unknown encoding
	set, err := dataset.Read(c.Request().Context(), chosen.File.Name, chosen.File.Content, chosen.Layout)
	if chosen.Set = set; err != nil {
		chosen.Fault = request.DatasetFault(err)
	}
	preview := h.Questions.Preview(c, submitted, &chosen)
	if preview != nil {
		view.Errors["file"] = "" // the preview shows the fault of the file
	}
	return preview
}

// addDatasetVersion saves the next version of a dataset from a form.
func (h *handler) addDatasetVersion(c echo.Context) error {
	ctx, k := c.Request().Context(), h.datasets()
	row, err := k.named(c, c.Param("id"))
	if err != nil {
		return err
	}
	submitted, err := h.read(c, "", nil)
	if err != nil {
		return err
	}
	if err := h.admit(c, submitted); err != nil {
		return err
	}
	if submitted.Refused != nil {
		return submitted.Refused
	}
	_, faults, err := h.saver.DatasetVersion(ctx, *row, submitted)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return k.show(c, h, row, submitted, faults)
	}
	return pages.Done(c, paths.LibraryEntry(string(k.kind), row.ID), "version")
}

// datasetVersion returns the dataset whose id is in the path, and the number of the version there.
func (h *handler) datasetVersion(c echo.Context) (row *entries.Dataset, version int, err error) {
	if version, err = number(c.Param("number")); err != nil {
		return nil, 0, err
	}
	row, err = h.datasets().named(c, c.Param("id"))
	return row, version, err
}

// showDatasetVersion shows a version of a dataset, with its rows and its changes from the previous version.
func (h *handler) showDatasetVersion(c echo.Context) error {
	row, version, err := h.datasetVersion(c)
	if err != nil {
		return err
	}
	view := saved.Form{Kind: saved.Datasets, Entry: &row.Entry, Values: map[string]string{}}
	if err := h.fillDataset(c, &view, row, version); err != nil {
		return err
	}
	if redirected, err := pages.RedirectPastEnd(c, view.Content.Pager); redirected {
		return err
	}
	name := "v" + strconv.Itoa(version)
	frame := pages.Frame(c, h.Version, row.Name+" "+name, ui.SectionLibrary,
		h.crumbs(c, saved.Datasets, ui.Crumb{Text: row.Name, Href: paths.LibraryEntry(string(saved.Datasets), row.ID)},
			ui.Crumb{Text: name})...)
	frame.Styles = []string{"form.css", "library.css"}
	return pages.Render(c, http.StatusOK, saved.DatasetVersionPage(frame, view))
}

// downloadVersion sends the file of a version of a dataset.
func (h *handler) downloadVersion(c echo.Context) error {
	ctx := c.Request().Context()
	row, version, err := h.datasetVersion(c)
	if err != nil {
		return err
	}
	found, err := h.Library.Entries.DatasetVersion(ctx, request.ScopeOf(ctx), row.ID, version)
	if err != nil {
		return err
	}
	file, err := h.Library.DatasetFile(ctx, row.ID, found)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	pages.SendFile(c, file, found.FileName, found.Extension)
	return nil
}
