package handlers

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/jobs/export"
)

// stuckAfter is how long a reader may take nothing before it counts as gone: it must not hold a
// connection of the database for good.
const stuckAfter = time.Minute

// reportWriter is a report being written, whatever its format.
type reportWriter interface {
	Write(export.Item) error
	Close() error
}

// exportResults streams a task's report. It is written while the database is read; a failure on the way
// breaks the connection, so that no client takes a part for the whole.
func (s *Server) exportResults(c echo.Context) error {
	task, err := s.finishedTask(c)
	if err != nil {
		return err
	}
	format := c.QueryParam("format")
	if format == "" {
		format = "csv"
	}
	contentType, ok := map[string]string{
		"csv":   "text/csv; charset=utf-8",
		"xlsx":  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
		"jsonl": "application/x-ndjson; charset=utf-8",
	}[format]
	if !ok {
		return parameterInvalid("format", "error.range.choice", "Choices", "csv, xlsx, jsonl")
	}
	includeErrors := true
	if text := c.QueryParam("include_errors"); text != "" {
		if includeErrors, err = strconv.ParseBool(text); err != nil {
			return parameterInvalid("include_errors", "error.range.boolean")
		}
	}
	statistics, err := s.Store.TaskStatistics(c.Request().Context(), task.ID)
	if err != nil {
		return err
	}
	report := reportOf(task, statistics, includeErrors)
	c.Response().Header().Set(echo.HeaderContentType, contentType)
	c.Response().Header().Set("Content-Disposition", export.ContentDisposition(task.Name, format))
	c.Response().Header().Set("Cache-Control", "no-store")
	c.Response().WriteHeader(http.StatusOK)
	return s.writeReport(c, task, format, report)
}

func (s *Server) writeReport(c echo.Context, task db.Task, format string, report export.Report) error {
	writer, err := s.newReport(c, task, format, report)
	if err != nil {
		return err
	}
	c.Response().Flush()
	connection := http.NewResponseController(c.Response().Writer)
	err = s.Store.EachExportRow(c.Request().Context(), task.ID, func(row db.ExportRow) error {
		_ = connection.SetWriteDeadline(time.Now().Add(stuckAfter)) // not every writer has deadlines
		item, err := exportItem(row)
		if err != nil {
			return err
		}
		return writer.Write(item)
	})
	if err != nil {
		return err
	}
	_ = connection.SetWriteDeadline(time.Time{})
	return writer.Close()
}

func (s *Server) newReport(c echo.Context, task db.Task, format string, report export.Report) (reportWriter, error) {
	switch format {
	case "xlsx":
		locale := s.locale(c)
		completed := ""
		if report.CompletedAt != nil {
			completed = export.FormatTime(*report.CompletedAt)
		}
		info := export.Info{
			{locale.Text("export.info.name"), report.TaskName}, {locale.Text("export.info.url"), report.AgentURL},
			{locale.Text("export.info.model"), report.AgentModel}, {locale.Text("export.info.runs"), strconv.Itoa(report.RunsPerItem)},
			{locale.Text("export.info.items"), strconv.Itoa(report.Items)}, {locale.Text("export.info.succeeded"), strconv.Itoa(report.Succeeded)},
			{locale.Text("export.info.failed"), strconv.Itoa(report.Failed)},
			{locale.Text("export.info.stopped"), strconv.Itoa(report.Stopped)}, {locale.Text("export.info.status"), locale.Text("status." + string(task.Status))},
			{locale.Text("export.info.created"), export.FormatTime(report.CreatedAt)}, {locale.Text("export.info.completed"), completed},
		}
		return export.NewXLSX(c.Response(), report, info, [2]string{locale.Text("export.sheet.info"), locale.Text("export.sheet.results")}, locale.Text("export.cut"))
	case "jsonl":
		return export.NewJSONL(c.Response(), report), nil
	}
	return export.NewCSV(c.Response(), report)
}

func reportOf(task db.Task, statistics db.Statistics, includeErrors bool) export.Report {
	report := export.Report{
		TaskName: task.Name, AgentURL: shownURL(task.AgentURL), RunsPerItem: task.RunsPerItem, CreatedAt: task.CreatedAt, CompletedAt: task.CompletedAt,
		VariableNames: task.VariableNames, IncludeErrors: includeErrors,
		Items: task.TotalItems, Succeeded: statistics.Succeeded, Failed: statistics.Failed + statistics.TimedOut, Stopped: statistics.Stopped,
	}
	if task.AgentModel != nil {
		report.AgentModel = *task.AgentModel
	}
	return report
}

// shownURL leaves out the query of an agent's URL: keys are often written there.
func shownURL(address string) string {
	head, _, isCut := strings.Cut(address, "?")
	if isCut {
		return head + "?…"
	}
	return head
}

func exportItem(row db.ExportRow) (export.Item, error) {
	item := export.Item{QuestionID: row.QuestionID, Question: row.Question, StandardAnswer: row.StandardAnswer,
		SystemPrompt: row.SystemPrompt, UserContext: row.UserContext}
	if row.Variables != nil {
		if err := json.Unmarshal(*row.Variables, &item.Variables); err != nil {
			return item, err
		}
	}
	for _, run := range row.Runs {
		item.Runs = append(item.Runs, export.Run{Index: run.RunIndex, Status: string(run.Status), Response: run.Response, Exact: run.Exact,
			LatencyMS: run.LatencyMS, ErrorCode: run.ErrorCode, ErrorMessage: run.ErrorMessage})
	}
	return item, nil
}
