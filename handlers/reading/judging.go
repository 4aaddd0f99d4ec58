package reading

import (
	"context"
	"io"

	"wending/db"
	"wending/db/review"
	"wending/handlers/request"
	"wending/jobs/export"
	"wending/views/text"
	"wending/views/ui"
)

// The catalogue keys of the column titles in a review workbook. When a workbook is imported, the titles are recognised
// in any language.
const (
	JudgedVerdictKey = "judging.verdict"
	JudgedReasonsKey = "judging.reasons"
	JudgedNoteKey    = "judging.note"
)

// toJudge returns a function that begins writing a review workbook.
func (r Reports) toJudge(task db.Task, order Order,
	head export.Report) func(context.Context, io.Writer) (reportWriter, error) {
	return func(ctx context.Context, w io.Writer) (reportWriter, error) {
		reasons, err := review.New(r.store).ReasonsOf(ctx, task.ID)
		if err != nil {
			return nil, err
		}
		head.Variants = exportVariants(task)
		return export.NewJudging(w, head, judgingTexts(request.From(ctx).Locale, order.Reviewer, reasons))
	}
}

// judgingTexts returns the texts of a review workbook, in the locale's language.
func judgingTexts(locale text.Locale, reviewer string, reasons []string) export.JudgingTexts {
	texts := export.JudgingTexts{
		Sheet: locale.Text("export.sheet.review"), Number: locale.Text("judging.number"),
		Question: locale.Text("judging.question"), Standard: locale.Text("judging.standard"),
		Variant: locale.Text("judging.variant"), Level: locale.Text("judging.level"), Facts: locale.Text("judging.facts"),
		Verdict: locale.Text(JudgedVerdictKey), Reasons: locale.Text(JudgedReasonsKey), Note: locale.Text(JudgedNoteKey),
		Answer:    func(run int) string { return locale.Text("judging.answer", "Run", run) },
		VerdictOf: func(verdict string) string { return locale.Text("verdict." + verdict) },
		LevelOf: func(level string) string {
			if level == "" {
				return ""
			}
			return locale.Text("level." + level)
		},
		FailureOf: func(run export.Run) string {
			if run.Status == "" {
				return ""
			}
			text := locale.Text("judging.failed", "Code", run.Status)
			if run.ErrorCode != nil {
				text = locale.Text("judging.failed", "Code", *run.ErrorCode)
			}
			if run.ErrorMessage != nil {
				text += "\n" + *run.ErrorMessage
			}
			return text
		},
		CutMark: locale.Text("export.cut"), Reviewer: reviewer,
	}
	for _, verdict := range review.Verdicts {
		texts.Verdicts = append(texts.Verdicts, locale.Text("verdict."+string(verdict)))
	}
	for _, reason := range reasons {
		texts.ReasonList = append(texts.ReasonList, ui.Reason(locale, reason))
	}
	return texts
}
