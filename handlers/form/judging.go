package form

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"wending/db"
	"wending/db/review"
	"wending/handlers/request"
	"wending/jobs/dataset"
	"wending/jobs/export"
	"wending/views/text"
	"wending/views/ui"
)

// ImportedReviews says what importing a review workbook did: how many verdicts it stored, how many rows contained
// nothing new, and which rows it did not store.
type ImportedReviews struct {
	Changed, Unchanged int
	Conflicts          []ReviewConflict
}

// ReviewConflict is a row that was not stored, because its verdict has been changed elsewhere since the workbook was
// made.
type ReviewConflict struct {
	Row   int
	Place review.Place
	Mine  review.Opinion
	// Theirs is the current verdict; nil if it was withdrawn.
	Theirs *review.Review
}

// judgedRow is a row of the workbook that a reviewer filled in or changed.
type judgedRow struct {
	number  int
	place   review.Place
	said    review.Opinion
	version int
}

// ImportReviews stores the verdicts of a form's workbook in the reviewer's name. Rows whose verdict has been changed
// since the workbook was made are not stored. If a row is invalid, nothing is stored.
func ImportReviews(ctx context.Context, store *db.Store, task db.Task, f *Upload) (done ImportedReviews, err error) {
	reviewer, err := ReviewerName(ctx, f.Value("reviewer"))
	if err != nil {
		return done, err
	}
	switch {
	case f.Refused != nil:
		return done, f.Refused
	case f.File == nil:
		return done, request.FieldFault("file", request.Required())
	case f.File.IsTooLarge:
		return done, request.NewFault(request.CodeDatasetTooLarge).WithMessage("error.ANSWERS_TOO_LARGE")
	}
	reviews := review.New(store)
	reader := judgedReader{task: task, reviewer: reviewer}
	if reader.reasons, err = reviews.ReasonsOf(ctx, task.ID); err != nil {
		return done, err
	}
	if err := reader.read(ctx, f.File.Content); err != nil {
		return done, request.DatasetFault(err)
	}
	current, err := currentReviews(ctx, reviews, task, reviewer)
	if err != nil {
		return done, err
	}
	done.Unchanged = reader.untouched
	for _, row := range reader.rows {
		known := current[judgedKey(row.place)]
		if known == nil {
			known = &knownReview{}
		}
		if known.isSame(row.said) {
			done.Unchanged++
			continue
		}
		if row.version == 0 && known.IsWithdrawn {
			row.version = known.Version.Version // replacing a withdrawn verdict overwrites nothing
		}
		_, err := reviews.Put(ctx, task.ID, row.place, row.said, row.version)
		conflict := (*review.ConflictError)(nil)
		switch {
		case errors.As(err, &conflict):
			done.Conflicts = append(done.Conflicts, ReviewConflict{row.number, row.place, row.said, conflict.Current})
		case err != nil:
			return done, err
		default:
			done.Changed++
		}
	}
	return done, nil
}

// knownReview is a reviewer's latest verdict on a place, which may have been withdrawn; it is empty if there is none.
type knownReview struct{ review.Version }

func (k *knownReview) isSame(said review.Opinion) bool {
	return k.Version.Version > 0 && !k.IsWithdrawn && k.Verdict == said.Verdict && k.Note == said.Note &&
		slices.Equal(slices.Sorted(slices.Values(k.Reasons)), slices.Sorted(slices.Values(said.Reasons)))
}

// judgedKey is the key of a place's question and variant in knownReviews.
func judgedKey(place review.Place) string {
	return strconv.Itoa(place.Variant) + " " + place.QuestionID
}

// currentReviews returns a reviewer's verdicts on questions as a whole, by judgedKey.
func currentReviews(ctx context.Context, reviews review.Reviews, task db.Task,
	reviewer string) (map[string]*knownReview, error) {
	given, err := reviews.List(ctx, task.ID, reviewer, "")
	if err != nil {
		return nil, err
	}
	withdrawn, err := reviews.Withdrawn(ctx, task.ID)
	if err != nil {
		return nil, err
	}
	known := knownReviews{}
	for _, one := range withdrawn {
		if one.Reviewer == reviewer {
			known.add(one, true)
		}
	}
	for _, one := range given {
		known.add(one, false)
	}
	return known, nil
}

type knownReviews map[string]*knownReview

func (k knownReviews) add(one review.Review, isWithdrawn bool) {
	if one.RunIndex == nil {
		k[judgedKey(one.Place)] = &knownReview{review.Version{Review: one, IsWithdrawn: isWithdrawn}}
	}
}

// judgedReader reads the rows of a review workbook.
type judgedReader struct {
	task     db.Task
	reviewer string
	reasons  []string
	// columns maps the names of columns to their positions, from 0; nil until the header has been found.
	columns map[string]int
	rows    []judgedRow
	// untouched counts the rows that the reviewer left as they were exported.
	untouched int
	wrong     []dataset.RowError
}

// The names of the columns that reviewers fill in.
const (
	judgedVerdict = "verdict"
	judgedReasons = "reasons"
	judgedNote    = "note"
)

// maxJudgedErrors is the maximum number of invalid rows that an error lists.
const maxJudgedErrors = 20

func (r *judgedReader) read(ctx context.Context, content []byte) error {
	if dataset.Sniff(content) != "xlsx" {
		return &dataset.Error{Code: dataset.CodeFormatUnsupported, Problem: "judging_format"}
	}
	isHeader := func(cells []string) bool {
		found := headerOf(ctx, cells)
		_, hasID := found[export.JudgedQuestion]
		_, hasVersion := found[export.JudgedVersion] // the sheet of reviews in a report has none
		_, hasVerdict := found[judgedVerdict]
		return hasID && hasVersion && hasVerdict
	}
	err := dataset.Table(ctx, content, "", isHeader, func(number int, cells []string) error {
		if r.columns == nil {
			r.columns = headerOf(ctx, cells)
			return nil
		}
		r.row(ctx, number, cells)
		return nil
	})
	switch {
	case err != nil:
		return err
	case r.columns == nil:
		return &dataset.Error{Code: dataset.CodeSchemaInvalid, Problem: "judging_columns"}
	case len(r.wrong) > 0:
		return &dataset.Error{Code: dataset.CodeRowInvalid, Problem: "rows_invalid",
			Args: map[string]any{"Count": len(r.wrong)}, Details: r.wrong[:min(len(r.wrong), maxJudgedErrors)]}
	}
	return nil
}

// headerOf maps the names of the known columns of a header, which may be in any language, to their positions.
func headerOf(ctx context.Context, cells []string) map[string]int {
	names := map[string]string{}
	for _, hidden := range []string{export.JudgedQuestion, export.JudgedVariant, export.JudgedVersion,
		export.JudgedReviewer, export.JudgedSeen} {
		names[hidden] = hidden
	}
	for _, lang := range text.Languages {
		locale := text.LocaleOf(ctx).In(lang)
		for _, name := range []string{judgedVerdict, judgedReasons, judgedNote} {
			names[strings.ToLower(locale.Text("judging."+name))] = name
		}
	}
	found := map[string]int{}
	for n, cell := range cells {
		if name, isKnown := names[strings.ToLower(strings.TrimSpace(cell))]; isKnown {
			found[name] = n
		}
	}
	return found
}

func (r *judgedReader) cell(cells []string, name string) string {
	if n, isThere := r.columns[name]; isThere && n < len(cells) {
		return cells[n]
	}
	return ""
}

func (r *judgedReader) fail(row int, column, problem string, args map[string]any) {
	r.wrong = append(r.wrong, dataset.RowError{Row: row, Column: column, Problem: problem, Args: args})
}

// row adds a row of the workbook to r.rows or, if it is invalid, the reason to r.wrong. number is the row's number in
// the sheet.
func (r *judgedReader) row(ctx context.Context, number int, cells []string) {
	verdict, reasons, note := r.cell(cells, judgedVerdict), r.cell(cells, judgedReasons), r.cell(cells, judgedNote)
	isBlank := strings.TrimSpace(verdict+reasons+note) == ""
	if isBlank || export.Seen(verdict, reasons, note) == r.cell(cells, export.JudgedSeen) {
		r.untouched++
		return
	}
	row := judgedRow{number: number, place: review.Place{Variant: 1, Reviewer: r.reviewer,
		QuestionID: strings.TrimSpace(r.cell(cells, export.JudgedQuestion))}}
	if n, err := strconv.Atoi(r.cell(cells, export.JudgedVariant)); err == nil {
		row.place.Variant = n
	}
	if n, err := strconv.Atoi(r.cell(cells, export.JudgedVersion)); err == nil &&
		r.cell(cells, export.JudgedReviewer) == r.reviewer {
		row.version = n
	}
	if row.place.QuestionID == "" || row.place.Variant < 1 || row.place.Variant > r.task.TotalVariants {
		r.fail(number, export.JudgedQuestion, "judging_question", nil)
		return
	}
	var err error
	if row.said.Verdict = verdictIn(ctx, verdict); row.said.Verdict == "" {
		r.fail(number, judgedVerdict, "judging_verdict", map[string]any{"Value": shortened(verdict)})
		return
	}
	if row.said.Note, err = Note(strings.TrimSpace(note)); err != nil {
		r.fail(number, judgedNote, "judging_note", map[string]any{"Max": maxNoteLength})
		return
	}
	if row.said.Reasons, err = Reasons(r.reasonsIn(ctx, reasons), r.reasons); err != nil {
		r.fail(number, judgedReasons, "judging_reasons", map[string]any{"Value": shortened(reasons)})
		return
	}
	r.rows = append(r.rows, row)
}

// shortened returns the first 40 characters of a cell, for an error message.
func shortened(cell string) string {
	if runes := []rune(cell); len(runes) > 40 {
		return string(runes[:40]) + "…"
	}
	return cell
}

// verdictIn returns the verdict that a cell contains, in any language; empty if it contains none.
func verdictIn(ctx context.Context, cell string) review.Verdict {
	cell = strings.TrimSpace(cell)
	for _, verdict := range review.Verdicts {
		if strings.EqualFold(cell, string(verdict)) {
			return verdict
		}
		for _, lang := range text.Languages {
			if strings.EqualFold(cell, text.LocaleOf(ctx).In(lang).Text("verdict."+string(verdict))) {
				return verdict
			}
		}
	}
	return ""
}

// reasonsIn returns the reasons that a cell contains, in any language, separated by commas, semicolons or line breaks.
// Unknown reasons are returned as they are.
func (r *judgedReader) reasonsIn(ctx context.Context, cell string) (reasons []string) {
	names := map[string]string{}
	for _, reason := range r.reasons {
		names[strings.ToLower(reason)] = reason
		for _, lang := range text.Languages {
			names[strings.ToLower(ui.Reason(text.LocaleOf(ctx).In(lang), reason))] = reason
		}
	}
	if whole, isKnown := names[strings.ToLower(strings.TrimSpace(cell))]; isKnown {
		return []string{whole}
	}
	for _, part := range strings.FieldsFunc(cell, func(c rune) bool { return strings.ContainsRune("、,，;；\n", c) }) {
		part = strings.TrimSpace(part)
		if reason, isKnown := names[strings.ToLower(part)]; isKnown {
			part = reason
		}
		if part != "" {
			reasons = append(reasons, part)
		}
	}
	return reasons
}
