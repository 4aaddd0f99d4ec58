package gate

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// markdown returns the summary as Markdown, for a merge request.
func (r report) markdown(checks []check) string {
	var b strings.Builder
	result := "passed"
	if !passed(checks) {
		result = "failed"
	}
	title := cell(r.Name)
	if r.URL != "" {
		title = fmt.Sprintf("[%s](%s)", title, r.URL)
	}
	fmt.Fprintf(&b, "### %s: %s\n\n", title, result)
	row := func(cells ...string) {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	row(heads...)
	row("---", "--:", "--:", "--:", "--:", "--:", "--:")
	for _, one := range r.Variants {
		cells := one.cells()
		for n := range cells {
			cells[n] = cell(cells[n])
		}
		row(cells...)
	}
	if len(checks) > 0 {
		b.WriteString("\n")
		row("", "check")
		row("---", "---")
		for _, check := range checks {
			row(map[outcome]string{isPassed: "✅ ok", isWarned: "⚠️ undecided", isFailed: "❌ failed"}[check.outcome],
				cell(r.told(check)))
		}
	}
	if r.Differences != nil {
		b.WriteString("\n" + legend + "\n")
	}
	b.WriteString("\n")
	return b.String()
}

// cell escapes a text for a cell of a Markdown table.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune("\\`*_[]<>|#~&", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// appendFile appends a text to a file.
func appendFile(path, text string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // a summary that other steps read
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
