package reading

import (
	"context"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/db/review"
	"wending/handlers/request"
	"wending/jobs/export"
	"wending/views/marks"
	"wending/views/summary"
	"wending/views/text"
	"wending/views/ui"
)

const (
	// compareTime is the maximum time for comparing the answers of two tasks for an export.
	compareTime = 10 * time.Minute
	// comparedAtOnce is how many questions are in memory at the same time, and comparedText is the maximum number of
	// characters of an answer in a CSV file.
	comparedAtOnce = 5
	comparedText   = 1_000_000
)

// comparedColumn is a column of the exported questions.
type comparedColumn struct {
	// name is the column's title in a CSV file. The titles of columns about one task begin with a_ or b_.
	name string
	// key is the catalogue key of the title in a workbook, without the prefix export.compare. side is the key of the
	// task's name that precedes the title; it is empty if the column is not about one task.
	key, side string
	holds     export.Cells
}

// comparedColumns returns the columns of the exported questions, in order.
func comparedColumns() []comparedColumn {
	columns := []comparedColumn{
		{"number", "number", "", export.HoldsNumber}, {"question_id", "id", "", export.HoldsText},
		{"question", "question", "", export.HoldsText},
		{"standard_answer", "standard", "", export.HoldsText}, {"group", "group", "", export.HoldsText},
		{"worse", "worse", "", export.HoldsText},
		{"facts", "facts", "", export.HoldsText}, {"similarity", "similarity", "", export.HoldsShare},
		{"p", "p", "", export.HoldsNumber}, {"q", "q", "", export.HoldsNumber}, {"changed", "changed", "", export.HoldsText},
		{"confirmed_p", "confirmed.p", "", export.HoldsNumber}, {"confirmed_q", "confirmed.q", "", export.HoldsNumber},
		{"confirmed", "confirmed", "", export.HoldsText},
	}
	for _, side := range []string{"a", "b"} {
		for _, one := range []comparedColumn{
			{"level", "level", "", export.HoldsText}, {"agreement", "agreement", "", export.HoldsShare},
			{"success_rate", "success", "", export.HoldsShare},
			{"pass_share", "pass", "", export.HoldsShare}, {"score", "score", "", export.HoldsNumber},
			{"latency_ms", "latency", "", export.HoldsNumber},
			{"answer", "answer", "", export.HoldsText}, {"verdict", "verdict", "", export.HoldsText},
			{"verdict_by", "by", "", export.HoldsText},
			{"verdict_note", "note", "", export.HoldsText},
		} {
			columns = append(columns, comparedColumn{side + "_" + one.name, one.key, "compare." + side, one.holds})
		}
	}
	return columns
}

// ComparedTexts returns the catalogue keys of the titles of comparedColumns, without the prefix export.compare.
func ComparedTexts() (keys []string) {
	for _, column := range comparedColumns() {
		keys = append(keys, column.key)
	}
	return keys
}

// comparedReport is a comparison that is being exported.
type comparedReport struct {
	reports  Reports
	a, b     summary.ComparedSide
	compared Compared
	pairs    []measure.Pair
	locale   text.Locale
	// isTable says to write names for programs, as in a CSV file, instead of texts for people. limit is the maximum number
	// of characters in a cell.
	isTable bool
	limit   int
}

// PrepareComparison compares two tasks, and returns a function that writes the result question by question, in order of
// risk. asked filters the questions by columns, as in Narrow.
func (r Reports) PrepareComparison(
	ctx context.Context, a, b summary.ComparedSide, asked url.Values, format string,
) (write func(context.Context, io.Writer) error, err error) {
	c := comparedReport{reports: r, a: a, b: b, locale: request.From(ctx).Locale, isTable: format == "csv",
		limit: export.MaxCellText}
	if c.compared, err = r.reader.Compare(ctx, a.Side(), b.Side(), false, compareTime); err != nil {
		return nil, err
	}
	if c.compared.Comparison, err = r.reader.Narrow(ctx, a, b, asked, c.compared.Comparison); err != nil {
		return nil, err
	}
	c.pairs = c.compared.ByRisk()
	if c.isTable {
		c.limit = comparedText
		return c.writeTable, nil
	}
	return c.writeWorkbook, nil
}

func (c comparedReport) writeTable(ctx context.Context, w io.Writer) error {
	var titles []string
	for _, column := range comparedColumns() {
		titles = append(titles, column.name)
	}
	for _, name := range c.b.VariableNames {
		titles = append(titles, "var_"+name)
	}
	table, err := export.NewTable(w, titles)
	if err != nil {
		return err
	}
	if err := c.each(ctx, table.Row); err != nil {
		return err
	}
	return table.Close()
}

func (c comparedReport) writeWorkbook(ctx context.Context, w io.Writer) error {
	questions := export.Sheet{Name: c.locale.Text("export.compare.sheet.questions"),
		Read: func(write func([]string) error) error {
			return c.each(ctx, write)
		}}
	for _, column := range comparedColumns() {
		title := c.locale.Text("export.compare." + column.key)
		if column.side != "" {
			title = c.locale.Text(column.side) + " " + title
		}
		questions.Columns = append(questions.Columns, export.Column{Title: title, Holds: column.holds})
	}
	for _, name := range c.b.VariableNames {
		questions.Columns = append(questions.Columns, export.Column{Title: name, Holds: export.HoldsText})
	}
	return export.WriteTables(w, c.locale.Text("export.compare.cut"), [3]export.Sheet{c.summary(), questions, c.alone()})
}

// summary returns the sheet with the names of both tasks, the measures, and the number of questions in each group.
func (c comparedReport) summary() export.Sheet {
	l := c.locale
	sheet := export.Sheet{Name: l.Text("export.compare.sheet.summary"),
		Columns: []export.Column{{Title: l.Text("compare.measure")}}}
	for _, key := range []string{"compare.a", "compare.b", "compare.minus", "export.compare.low", "export.compare.high",
		"compare.n", "compare.verdict"} {
		sheet.Columns = append(sheet.Columns, export.Column{Title: l.Text(key), Holds: export.HoldsNumber})
	}
	sheet.Rows = append(sheet.Rows, []string{l.Text("export.info.name"), c.a.Title(), c.b.Title()})
	gated := c.compared.Gated(nil)
	for _, one := range []struct {
		name, number string
		change       measure.Change
	}{
		{"agreement", "agreement", c.compared.Agreement}, {"meaning", "meaning_agreement", c.compared.Meaning},
		{"success", "success_rate", c.compared.SuccessRate},
		{"pass", "pass_share", c.compared.PassShare}, {"latency", "latency_ms", c.compared.LatencyMS},
	} {
		if one.name == "meaning" && one.change.N == 0 {
			continue
		}
		sheet.Rows = append(sheet.Rows, []string{
			l.Text("compare.measure." + one.name), number(one.change.MeanA), number(one.change.MeanB), number(one.change.Mean),
			number(one.change.Low),
			number(one.change.High), strconv.Itoa(one.change.N), l.Text("compare.verdict." + string(gated[one.number].Verdict)),
		})
	}
	for _, group := range measure.ChangeGroups {
		row := make([]string, len(sheet.Columns))
		row[0], row[len(row)-2] = l.Text("compare.group."+string(group)), strconv.Itoa(c.compared.InGroup(group))
		sheet.Rows = append(sheet.Rows, row)
	}
	row := make([]string, len(sheet.Columns))
	row[0], row[len(row)-2] = l.Text("compare.changed.rate"), strconv.Itoa(len(c.compared.Changed()))
	sheet.Rows = append(sheet.Rows, row)
	for _, outcome := range measure.Outcomes {
		if count := c.compared.InOutcome(outcome); count > 0 {
			row := make([]string, len(sheet.Columns))
			row[0], row[len(row)-2] = l.Text("export.compare.confirmed.of",
				"Outcome", l.Text("compare.confirmed."+string(outcome))), strconv.Itoa(count)
			sheet.Rows = append(sheet.Rows, row)
		}
	}
	return sheet
}

// alone returns the sheet with the questions that only one task has.
func (c comparedReport) alone() export.Sheet {
	l := c.locale
	sheet := export.Sheet{Name: l.Text("export.compare.sheet.alone"), Columns: []export.Column{
		{Title: l.Text("export.compare.alone")}, {Title: l.Text("export.compare.number"), Holds: export.HoldsNumber},
		{Title: l.Text("export.compare.id")},
	}}
	for _, side := range []struct {
		key       string
		questions []measure.ComparedQuestion
	}{{"compare.only_a", c.compared.OnlyA}, {"compare.only_b", c.compared.OnlyB}} {
		for _, question := range side.questions {
			sheet.Rows = append(sheet.Rows, []string{l.Text(side.key), strconv.Itoa(question.Number), question.QuestionID})
		}
	}
	return sheet
}

// each calls write with a row for each compared question.
func (c comparedReport) each(ctx context.Context, write func([]string) error) error {
	reads := report.New(c.reports.store)
	for pairs := range slices.Chunk(c.pairs, comparedAtOnce) {
		if err := reads.Between(ctx, c.a.Side(), c.b.Side(), pairs, true, 0); err != nil {
			return err
		}
		var ids [2][]int64
		for _, pair := range pairs {
			ids[0], ids[1] = append(ids[0], pair.A.ID), append(ids[1], pair.B.ID)
		}
		items, err := c.reports.reader.ItemsOf(ctx, ids[1])
		if err != nil {
			return err
		}
		var answers [2]map[int64]report.CommonAnswer
		for n, side := range []summary.ComparedSide{c.a, c.b} {
			if answers[n], err = reads.CommonAnswers(ctx, ids[n], side.Variant, c.limit); err != nil {
				return err
			}
		}
		for _, pair := range pairs {
			if err := write(c.row(pair, items[pair.B.ID], answers[0][pair.A.ID].Text, answers[1][pair.B.ID].Text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// row returns the cells for a question, in the order of comparedColumns.
func (c comparedReport) row(pair measure.Pair, item db.Item, answerA, answerB string) []string {
	var losses, changed []string
	for _, loss := range pair.Losses() {
		losses = append(losses, c.word("compare.loss.", string(loss)))
	}
	similarity := ""
	if pair.Between != nil {
		similarity = number(pair.Between.Similarity)
		if pair.Between.IsConflict() {
			for _, fact := range marks.Conflicts(pair.Between.Facts) {
				changed = append(changed, marks.ChangedLine(fact))
			}
		}
	}
	cells := []string{
		strconv.Itoa(pair.A.Number), pair.A.QuestionID, item.Question, item.StandardAnswer,
		c.word("compare.group.", string(pair.Group())),
		strings.Join(losses, "; "), strings.Join(changed, "; "), similarity,
	}
	cells = append(cells, c.testedCells(pair)...)
	cells = append(cells, c.confirmedCells(pair.Confirmed)...)
	cells = append(cells, c.sideCells(pair.A, answerA,
		ReviewsOf(c.compared.OfA.OfQuestions[pair.A.QuestionID], c.a.Variant))...)
	cells = append(cells, c.sideCells(pair.B, answerB,
		ReviewsOf(c.compared.OfB.OfQuestions[pair.B.QuestionID], c.b.Variant))...)
	for n := range c.b.VariableNames {
		value := ""
		if n < len(item.Variables) { // a question that was added later has no columns
			value = item.Variables[n]
		}
		cells = append(cells, value)
	}
	return cells
}

// testedCells returns the cells with the result of testing whether the question changed: p, q, and yes or no; all are
// empty if it was not tested.
func (c comparedReport) testedCells(pair measure.Pair) []string {
	switch {
	case pair.Tested == nil:
		return []string{"", "", ""}
	case pair.IsChanged():
		return []string{number(&pair.Tested.P), number(&pair.Tested.Q), c.word("export.compare.changed.", "yes")}
	}
	return []string{number(&pair.Tested.P), number(&pair.Tested.Q), c.word("export.compare.changed.", "no")}
}

// confirmedCells returns the cells with the result of the runs that were made to confirm the change: p, q, and the
// outcome.
func (c comparedReport) confirmedCells(confirmed *measure.Confirmed) []string {
	switch {
	case confirmed == nil:
		return []string{"", "", ""}
	case confirmed.Tested == nil:
		return []string{"", "", c.word("compare.confirmed.", string(confirmed.Outcome))}
	}
	return []string{number(&confirmed.Tested.P), number(&confirmed.Tested.Q),
		c.word("compare.confirmed.", string(confirmed.Outcome))}
}

// sideCells returns the cells about one task's answers to a question.
func (c comparedReport) sideCells(q measure.ComparedQuestion, answer string, reviews []review.Review) []string {
	var verdicts, names, notes []string
	for _, one := range reviews {
		verdicts, names = append(verdicts, c.word("verdict.", string(one.Verdict))), append(names, one.Reviewer)
		if said := strings.TrimSpace(ui.Reasons(c.locale, one.Reasons) + " " + one.Note); said != "" {
			notes = append(notes, said)
		}
	}
	return []string{
		c.word("level.", string(q.Level)), number(q.Agreement), number(q.SuccessRate), number(q.PassShare), number(q.Score),
		number(q.LatencyMS), answer,
		strings.Join(verdicts, "; "), strings.Join(names, "; "), strings.Join(notes, "; "),
	}
}

// word returns name as it is for programs, or its text for people.
func (c comparedReport) word(prefix, name string) string {
	if c.isTable {
		return name
	}
	return c.locale.Text(prefix + name)
}
