package answers

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"strings"
	"unicode"

	"wending/jobs/dataset"
)

func isZIP(content []byte) bool { return bytes.HasPrefix(content, []byte("PK\x03\x04")) }

// recognise returns the format of a file, judging by its content.
func recognise(content []byte) (string, error) {
	switch found := dataset.Sniff(content); {
	case found == "xlsx":
		return XLSX, nil
	case found == "encrypted":
		return "", problem(dataset.CodeUnreadable, "encrypted")
	case isZIP(content) && isInspectArchive(content):
		return Inspect, nil
	case found != "csv":
		return "", problem(dataset.CodeFormatUnsupported, "answers_format", "Found", found)
	}
	text := bytes.TrimLeftFunc(bytes.TrimPrefix(content, []byte("\uFEFF")), unicode.IsSpace)
	if len(text) == 0 || text[0] != '{' {
		return CSV, nil
	}
	// The first object decides: the whole file of some tools, or the first line of others.
	return formatOf(firstObject(withoutNaN(text))), nil
}

// formatOf returns the format of a file that begins with an object with these members. isWhole reports that the object
// is the whole file.
func formatOf(members map[string]bool, isWhole bool) string {
	isEvent := members["spec"] || members["final_report"] || members["event_id"]
	switch {
	case members["results"] && (members["evalId"] || members["config"]):
		return Promptfoo
	case members["eval"] && members["version"]:
		return Inspect
	case isEvent && (!isWhole || members["sample_id"]), members["datasource_item"], members["item"] && members["sample"]:
		return OpenAIEvals
	}
	return JSONL // if the file contains no object, the reader reports the fault
}

// firstObject returns the names of the members of the JSON object with which a text begins, and whether the text ends
// with it; nil if the text does not begin with a valid object.
func firstObject(text []byte) (members map[string]bool, isWhole bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return nil, false
	}
	members = map[string]bool{}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, false
		}
		if text, isText := name.(string); isText {
			members[text] = true
		}
		var skipped json.RawMessage
		if decoder.Decode(&skipped) != nil {
			return nil, false
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, false
	}
	return members, len(bytes.TrimSpace(text[decoder.InputOffset():])) == 0
}

// isInspectArchive reports whether a ZIP file has the members of a log of Inspect.
func isInspectArchive(content []byte) bool {
	files, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return false
	}
	for _, file := range files.File {
		if file.Name == inspectHeader || strings.HasPrefix(file.Name, "_journal/") {
			return true
		}
	}
	return false
}
