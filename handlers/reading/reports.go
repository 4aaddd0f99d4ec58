package reading

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/db/measure"
	"wending/db/report"
	"wending/db/review"
	"wending/handlers/request"
	"wending/jobs/blob"
	"wending/jobs/export"
	"wending/jobs/tasks"
	"wending/views/paths"
	"wending/views/text"
	"wending/views/ui"
)

// ReportTypes maps the formats of reports to their content types.
var ReportTypes = map[string]string{
	"csv":   "text/csv; charset=utf-8",
	"xlsx":  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"jsonl": "application/x-ndjson; charset=utf-8",
	"html":  "text/html; charset=utf-8",
}

// Reports writes reports of tasks, as files in several formats.
type Reports struct {
	store  *db.Store
	assets engine.Assets
	reader Reader
}

// NewReports returns the Reports of a store; files contains the files that agents produced.
func NewReports(store *db.Store, files blob.Store) Reports {
	return Reports{store, engine.NewAssets(store), New(store, files)}
}

// reportWriter writes a report in one of the formats.
type reportWriter interface {
	Write(export.Item) error
	Close() error
}

// flusher is implemented by writers that can send buffered data immediately.
type flusher interface{ Flush() }

// Order describes the report that a request asks for.
type Order struct {
	// Format is a key of ReportTypes.
	Format        string
	IncludeErrors bool
	// Only holds the ids of the questions to include; nil means all.
	Only map[int64]bool
	// IsToJudge asks for a review workbook. Reviewer is the person whose verdicts it contains; empty means each question's
	// newest verdict.
	IsToJudge bool
	Reviewer  string
}

// Prepare collects what a report needs before its questions. write then writes the report while it reads the questions
// from the database.
func (r Reports) Prepare(ctx context.Context, task db.Task,
	order Order) (write func(context.Context, io.Writer) error, err error) {
	format, includeErrors := order.Format, order.IncludeErrors
	if format == "html" {
		return r.reader.Document(ctx, task, Contents{Only: order.Only})
	}
	statistics, err := r.store.TaskStatistics(ctx, task)
	if err != nil {
		return nil, err
	}
	reviews, err := r.reviewsByQuestion(ctx, task.ID)
	if err != nil {
		return nil, err
	}
	planned, err := r.store.PlannedRuns(ctx, task)
	if err != nil {
		return nil, err
	}
	pairs, err := r.pairsOf(ctx, task, order.Only)
	if err != nil {
		return nil, err
	}
	head := newReport(task, planned, statistics, includeErrors)
	head.HasReviews, head.HasMeanings = len(reviews) > 0, task.Grouper() != nil
	if head.HasAssets, err = r.assets.Any(ctx, task.ID); err != nil {
		return nil, err
	}
	var lines []string
	var sheets []*export.Sheet
	begin := func(ctx context.Context, w io.Writer) (reportWriter, error) {
		return newWriter(w, format, head, func() export.Texts {
			texts := exportTexts(request.From(ctx).Locale, task, head, statistics, lines)
			texts.Sheets = sheets
			return texts
		})
	}
	switch {
	case order.IsToJudge:
		begin = r.toJudge(task, order, head)
	case format == "xlsx":
		if lines, sheets, err = r.numbers(ctx, task, head, pairs); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, w io.Writer) error {
		writer, err := begin(ctx, w)
		if err != nil {
			return err
		}
		if stream, can := w.(flusher); can {
			stream.Flush()
		}
		if err := r.writeItems(ctx, task, order, head, reviews, pairs, writer); err != nil {
			return err
		}
		return writer.Close()
	}, nil
}

// numbers returns the sentences for the first sheet of a workbook, and the sheets with statistics.
func (r Reports) numbers(ctx context.Context, task db.Task,
	head export.Report, pairs pairsOfTask) (lines []string, sheets []*export.Sheet, err error) {
	locale := request.From(ctx).Locale
	numbers, err := r.reader.Summary(ctx, task, Grouping{}, false)
	if err != nil {
		return nil, nil, err
	}
	if len(head.Variants) > 0 {
		sheets = append(sheets, variantsSheet(locale, head.Variants, numbers))
	}
	if compared := pairs.sheet(locale, task); compared != nil {
		sheets = append(sheets, compared)
	}
	if beside := peopleSheet(locale, numbers.Judges); beside != nil {
		sheets = append(sheets, beside)
	}
	sliced, err := r.slicesSheet(ctx, task)
	if err != nil {
		return nil, nil, err
	}
	if sliced != nil {
		sheets = append(sheets, sliced)
	}
	tools, err := engine.NewJournal(r.store).ToolReport(ctx, task.ID)
	if err != nil {
		return nil, nil, err
	}
	return numbers.Lines(locale), append(sheets, toolSheets(locale, tools)...), nil
}

// writeItems writes the questions, each with its runs.
func (r Reports) writeItems(ctx context.Context, task db.Task, order Order, head export.Report,
	reviews map[string][]export.Review, pairs pairsOfTask, writer reportWriter) error {
	var limit *int
	if order.Format == "xlsx" {
		most := export.MaxCellText
		limit = &most
	}
	ofFirst := pairs.byFirst()
	number, last := 0, ""
	return report.New(r.store).EachRow(ctx, task.ID, limit, func(row report.Row) error {
		item, err := exportItem(task, row, text.LocaleOf(ctx))
		if err != nil {
			return err
		}
		if number == 0 || item.QuestionID != last {
			number, last = number+1, item.QuestionID
		}
		if order.Only != nil && !order.Only[row.ID] {
			return nil // left out, but counted, so that later questions keep their numbers
		}
		item.Number = number
		for _, one := range reviews[item.QuestionID] {
			if one.Variant == item.Variant {
				item.Reviews = append(item.Reviews, one)
			}
		}
		item.Pairs = ofFirst[itemOfVariant{row.ID, item.Variant}]
		if head.HasAssets {
			if err := r.addAssets(ctx, task.ID, row.ID, &item); err != nil {
				return err
			}
		}
		return writer.Write(item)
	})
}

// addAssets adds to a question's runs the files that they produced.
func (r Reports) addAssets(ctx context.Context, taskID uuid.UUID, itemID int64, item *export.Item) error {
	byRun, err := r.assets.OfRuns(ctx, taskID, []int64{itemID})
	if err != nil {
		return err
	}
	for n := range item.Runs {
		for _, one := range byRun[item.Runs[n].ID] {
			told := export.Asset{Path: one.Path, Type: one.Kind, State: string(one.State), MediaType: one.MediaType,
				Size: one.Size, URL: paths.Asset(taskID, one.ID)}
			if hash := one.HashOf(); hash != "" {
				told.SHA256 = &hash
			}
			item.Runs[n].Assets = append(item.Runs[n].Assets, told)
		}
	}
	return nil
}

func newWriter(w io.Writer, format string, report export.Report, texts func() export.Texts) (reportWriter, error) {
	switch format {
	case "xlsx":
		return export.NewXLSX(w, report, texts())
	case "jsonl":
		return export.NewJSONL(w, report), nil
	}
	return export.NewCSV(w, report)
}

func newReport(task db.Task, planned db.Planned, statistics db.TaskStatistics, includeErrors bool) export.Report {
	report := export.Report{
		TaskName: task.Name, AgentURL: task.TypedTarget().URL, RunsPerItem: task.RunsPerItem,
		MostRuns: task.MostRuns(planned), CreatedAt: task.CreatedAt, CompletedAt: task.CompletedAt,
		VariableNames: task.VariableNames, IncludeErrors: includeErrors,
		Items: task.TotalItems, Succeeded: statistics.Succeeded, Failed: statistics.Failed + statistics.TimedOut,
		Stopped: statistics.Stopped,
	}
	if !task.IsPlain() || len(task.Evaluators) > 0 {
		report.Variants, report.Evaluators = exportVariants(task), exportEvaluators(task.Evaluators)
	}
	if model := task.TypedTarget().Model; model != nil {
		report.AgentModel = *model
	}
	return report
}

// exportVariants returns the variants of a task as reports describe them.
func exportVariants(task db.Task) []export.Variant {
	list := make([]export.Variant, len(task.Variants))
	for n, variant := range task.Variants {
		target := task.Targets[variant.Target-1]
		list[n] = export.Variant{Number: variant.Number, Name: variant.Name, Target: target.Name}
		if target.Kind == db.TargetURL && target.URL != "" {
			list[n].Target = target.URL
		}
		if target.Currency != nil {
			list[n].Currency = *target.Currency
		}
		if variant.PromptVersion != nil {
			list[n].Prompt, _, _ = strings.Cut(variant.Name, " × ")
		}
	}
	return list
}

// exportEvaluators returns a task's evaluators with the titles of their columns. If several have the same name, the
// titles contain their versions.
func exportEvaluators(evaluators []db.Evaluator) []export.Evaluator {
	counts := map[string]int{}
	for _, one := range evaluators {
		counts[one.Name]++
	}
	list := make([]export.Evaluator, len(evaluators))
	for n, one := range evaluators {
		list[n] = export.Evaluator{Number: one.Number, Column: one.Name}
		if counts[one.Name] > 1 {
			list[n].Column += " v" + strconv.Itoa(one.Version)
		}
	}
	return list
}

// exportTexts returns the lines of a workbook's information sheet, and the names of all its sheets.
func exportTexts(locale text.Locale, task db.Task, report export.Report, statistics db.TaskStatistics,
	lines []string) export.Texts {
	shown := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return export.BeijingTime(*t)
	}
	texts := export.Texts{
		Info: [][2]string{
			{locale.Text("export.info.name"), report.TaskName},
			{locale.Text("export.info.url"), report.AgentURL},
			{locale.Text("export.info.model"), report.AgentModel},
			{locale.Text("export.info.runs"), strconv.Itoa(report.RunsPerItem)},
			{locale.Text("export.info.items"), strconv.Itoa(report.Items)},
			{locale.Text("export.info.succeeded"), strconv.Itoa(report.Succeeded)},
			{locale.Text("export.info.failed"), strconv.Itoa(report.Failed)},
			{locale.Text("export.info.stopped"), strconv.Itoa(report.Stopped)},
			{locale.Text("export.info.agreement"), text.Percent(statistics.Agreement)},
			{locale.Text("export.info.levels"), levelCounts(locale, statistics)},
			{locale.Text("export.info.status"), locale.Text("status." + string(task.Status))},
			{locale.Text("export.info.created"), export.BeijingTime(task.CreatedAt)},
			{locale.Text("export.info.started"), shown(task.StartedAt)},
			{locale.Text("export.info.completed"), shown(task.CompletedAt)},
			{locale.Text("export.info.duration"), text.Seconds(locale, statistics.Duration)},
		},
		InfoSheet: locale.Text("export.sheet.info"), ResultsSheet: locale.Text("export.sheet.results"),
		StabilitySheet: locale.Text("export.sheet.stability"), ReviewSheet: locale.Text("export.sheet.review"),
		FactsColumn: locale.Text("export.facts"), ExpectedColumn: locale.Text("export.expected"),
		CutMark: locale.Text("export.cut"),
	}
	if len(report.Variants) > 0 { // with several targets there is no single address, model or agreement
		texts.Info = slices.DeleteFunc(texts.Info, func(line [2]string) bool { return line[1] == "" || line[1] == "–" })
	}
	summary := make([][2]string, len(lines))
	for n, line := range lines {
		if n == 0 {
			summary[n][0] = locale.Text("summary.crumb")
		}
		summary[n][1] = line
	}
	texts.Info = slices.Concat(texts.Info[:1], summary, texts.Info[1:]) // after the name, before the numbers
	return texts
}

// reviewsByQuestion returns a task's reviews, keyed by question id.
func (r Reports) reviewsByQuestion(ctx context.Context, taskID uuid.UUID) (map[string][]export.Review, error) {
	found, err := review.New(r.store).List(ctx, taskID, "", "")
	if err != nil {
		return nil, err
	}
	locale := text.LocaleOf(ctx)
	reviews, names := map[string][]export.Review{}, map[uuid.UUID]string{}
	for _, one := range found {
		said := export.Review{
			Variant: one.Variant, RunIndex: one.RunIndex, Reviewer: one.Reviewer, Verdict: string(one.Verdict),
			Reasons: one.Reasons, ReasonsText: ui.Reasons(locale, one.Reasons),
			Ratings: one.Ratings, Note: one.Note, Version: one.Version, IsOutdated: one.IsOutdated, CreatedAt: one.CreatedAt,
		}
		if one.CarriedFrom != nil {
			if said.CarriedFromName, err = r.nameOf(ctx, *one.CarriedFrom, names); err != nil {
				return nil, err
			}
			said.CarriedBy, said.CarriedFrom = *one.CarriedBy, one.CarriedFrom.String()
		}
		reviews[one.QuestionID] = append(reviews[one.QuestionID], said)
	}
	return reviews, nil
}

// nameOf returns the name of a task, which it caches in known; empty if the task was deleted.
func (r Reports) nameOf(ctx context.Context, id uuid.UUID, known map[uuid.UUID]string) (string, error) {
	name, isKnown := known[id]
	if isKnown {
		return name, nil
	}
	task, err := r.store.Task(ctx, request.ScopeOf(ctx), id)
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return "", err
	}
	known[id] = task.Name
	return task.Name, nil
}

// levelCounts returns how many questions are at each level, as text; levels without questions are left out.
func levelCounts(locale text.Locale, statistics db.TaskStatistics) string {
	var parts []string
	for _, level := range measure.Levels {
		if count := statistics.Levels[string(level)]; count > 0 {
			parts = append(parts, locale.Text("level."+string(level))+" "+strconv.Itoa(count))
		}
	}
	return strings.Join(parts, " · ")
}

func exportItem(task db.Task, row report.Row, locale text.Locale) (export.Item, error) {
	if len(row.Variables) != len(task.VariableNames) {
		return export.Item{}, fmt.Errorf("question %s has %d values for %d columns", row.QuestionID, len(row.Variables),
			len(task.VariableNames))
	}
	item := export.Item{
		Variant: row.Variant, QuestionID: row.QuestionID, Question: row.Question, StandardAnswer: row.StandardAnswer,
		SystemPrompt: row.SystemPrompt, UserContext: row.UserContext,
		Variables: row.Variables, Series: row.Series, Turn: row.Turn, Planned: row.Planned,
		Likeness: export.Likeness{Agreement: row.Agreement, Similarity: row.Similarity, Distinct: row.Answers,
			Novelty: row.Novelty(), Facts: row.Facts, Expected: row.Expected},
	}
	if said, _ := row.Known.OfVariant(row.Notes); said != nil {
		item.Meaning = &export.Meaning{
			By: string(said.By), IsDefault: said.IsDefault, Groups: said.Groups, Notes: said.Notes, Unsure: said.Unsure,
			Letters: said.Letters, Agreement: said.Agreement, Version: said.Version, Reviewer: said.Reviewer,
		}
	}
	if row.Level != nil {
		item.Level, item.Letters = string(*row.Level), *row.Letters
		if row.FactsDiffer != nil {
			item.FactsDiffer = string(*row.FactsDiffer)
		}
	}
	for _, run := range row.Runs {
		session := ""
		if row.Turn != nil {
			session = tasks.SessionID(run.LaunchID, run.UnitID)
		}
		item.Runs = append(item.Runs, export.Run{
			Index: run.RunIndex, ID: run.ID, SessionID: session, Status: string(run.Status), Response: run.Response,
			Exact:     run.Exact,
			LatencyMS: run.LatencyMS, ErrorCode: run.ErrorCode, ErrorMessage: run.ErrorMessage, FinishReason: run.FinishReason,
			TraceID: run.TraceID, AgentTraceID: run.AgentTraceID,
			Usage: export.Usage{
				InputTokens: run.InputTokens, OutputTokens: run.OutputTokens, ReasoningTokens: run.ReasoningTokens,
				TotalTokens: run.TotalTokens,
				Cost:        run.Cost, FirstTokenMS: run.FirstTokenMS,
			},
			Evaluations:    tasks.Verdicts(run.Evaluations, task.Evaluators, locale.Reason),
			FailedAttempts: tasks.FailedAttempts(run.FailedAttempts),
		})
	}
	return item, nil
}
