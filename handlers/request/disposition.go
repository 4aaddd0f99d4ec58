package request

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ReportDisposition returns the Content-Disposition of a report's download, with two file names that contain the task's
// name (RFC 6266): an ASCII one for old clients, and one with all characters and 评测报告 (evaluation report).
func ReportDisposition(taskName, extension string) string {
	name := safeName(taskName, "task")
	return disposition("attachment", asciiName(name, "task")+"_report."+extension, name+"_评测报告."+extension)
}

// Attachment returns the Content-Disposition for the download of a file.
func Attachment(name string) string { return named("attachment", name) }

// Inline returns the Content-Disposition for a file that a browser may show instead of saving it.
func Inline(name string) string { return named("inline", name) }

func named(kind, name string) string {
	name = safeName(name, "dataset")
	return disposition(kind, asciiName(name, "dataset"), name)
}

func disposition(kind, ascii, full string) string {
	return fmt.Sprintf(`%s; filename="%s"; filename*=UTF-8''%s`, kind, ascii,
		strings.ReplaceAll(url.QueryEscape(full), "+", "%20"))
}

// safeName removes characters that file systems or headers may not accept; fallback is returned if nothing remains.
func safeName(name, fallback string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune(`/\:*?"<>|`, r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, name)
	if name = strings.Trim(name, " ."); name == "" {
		return fallback
	}
	return name
}

func asciiName(name, fallback string) string {
	name = strings.Trim(strings.Map(func(r rune) rune {
		if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' || r == '.') {
			return r
		}
		return '_'
	}, name), "_.")
	if name == "" {
		return fallback
	}
	return name
}
