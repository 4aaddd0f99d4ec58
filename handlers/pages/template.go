package pages

import (
	"cmp"

	"github.com/labstack/echo/v4"

	"wending/handlers/request"
	"wending/jobs/dataset"
	"wending/views/text"
)

// DatasetTemplate sends an example of a file of questions, in the page's language.
func DatasetTemplate(c echo.Context) error {
	format := cmp.Or(c.QueryParam("format"), "csv")
	types := map[string]string{"csv": "text/csv; charset=utf-8",
		"xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"}
	if types[format] == "" {
		return request.ParameterFault("format", request.OneOf("csv", "xlsx"))
	}
	locale := Locale(c)
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, types[format])
	header.Set(echo.HeaderContentDisposition, request.Attachment(locale.Text("template.file")+"."+format))
	header.Set(echo.HeaderVary, "Cookie")
	return dataset.WriteTemplate(c.Response(), format, templateOf(locale))
}

// templateOf returns the content of the example: two single questions, and two that form a conversation.
func templateOf(locale text.Locale) dataset.Template {
	t := dataset.Template{Sheet: locale.Text("template.sheet")}
	for _, name := range dataset.KnownColumns {
		t.Columns = append(t.Columns, dataset.TemplateColumn{Name: name, Comment: locale.Text("template.column." + name)})
	}
	t.Columns = append(t.Columns, dataset.TemplateColumn{Name: locale.Text("template.variable"),
		Comment: locale.Text("template.column.variable")})
	for n, row := range []struct{ id, series, turn string }{{"q-001", "", ""}, {"q-002", "", ""}, {"q-003", "c-1", "1"},
		{"q-004", "c-1", "2"}} {
		number := row.id[len(row.id)-1:]
		context := ""
		if n == 1 {
			context = locale.Text("template.context")
		}
		t.Rows = append(t.Rows, []string{row.id, locale.Text("template.question." + number),
			locale.Text("template.answer." + number), "", context, row.series, row.turn,
			locale.Text("template.value." + number)})
	}
	return t
}
