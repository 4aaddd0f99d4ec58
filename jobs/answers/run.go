package answers

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// stopped is the status, in reports of this product, of a run that never took place.
const stopped = "STOPPED"

// statuses maps the words for a run's status that a file may use, in upper case, to the status.
var statuses = map[string]Status{
	"SUCCEEDED": Succeeded, "SUCCESS": Succeeded, "OK": Succeeded,
	"FAILED": Failed, "ERROR": Failed, "FAILURE": Failed,
	"TIMEOUT": TimedOut, "TIMEOUT_ERROR": TimedOut,
}

// run reads the fields of a run. prefix, such as run_2_, precedes the column names in errors. isThere is false for a
// run that never took place; ok is false if the row is faulty.
func (b *builder) run(row int, prefix string, f fields) (run Run, isThere, ok bool) {
	status := strings.ToUpper(clean(f[columnStatus]))
	answer := f[columnAnswer]
	if run.ErrorMessage = f[columnMessage]; clean(run.ErrorMessage) == "" {
		run.ErrorMessage = ""
	}
	run.ErrorCode, run.FinishReason = clean(f[columnCode]), clean(f[columnFinish])
	switch known, isKnown := statuses[status]; {
	case status == stopped:
		return run, false, true
	case isKnown:
		run.Status = known
	case status != "":
		b.fail(row, prefix+columnStatus, "answers_status", "Value", shorten(f[columnStatus], 40))
		return run, false, false
	case run.ErrorMessage != "" || run.ErrorCode != "":
		run.Status = Failed
	default:
		run.Status = Succeeded
	}
	if run.Status == Succeeded || answer != "" {
		run.Answer = &answer
	}
	run.Reasoning = given(f[columnThought])
	return run, true, b.numbers(row, prefix, f, &run) && b.texts(row, prefix, &run)
}

// texts checks and completes the error code and the message of a run; it returns false if the row is faulty.
func (b *builder) texts(row int, prefix string, run *Run) bool {
	switch {
	case utf8.RuneCountInString(run.ErrorCode) > maxCode || hasControl(run.ErrorCode):
		b.fail(row, prefix+columnCode, "answers_text", "Max", maxCode)
		return false
	case utf8.RuneCountInString(run.ErrorMessage) > maxMessage:
		b.fail(row, prefix+columnMessage, "answers_text", "Max", maxMessage)
		return false
	}
	run.complete()
	return true
}

// complete removes the error of a run that succeeded, and gives a code to one that did not.
func (r *Run) complete() {
	switch {
	case r.Status == Succeeded:
		r.ErrorCode, r.ErrorMessage = "", ""
	case r.ErrorCode != "":
	case r.Status == TimedOut:
		r.ErrorCode = CodeTimeout
	default:
		r.ErrorCode = CodeAgentError
	}
}

// numbers reads the numbers and the time of a run; it returns false if the row is faulty.
func (b *builder) numbers(row int, prefix string, f fields, run *Run) bool {
	for _, one := range []struct {
		name string
		to   **int
	}{{columnLatency, &run.LatencyMS}, {columnTokens, &run.TotalTokens}, {columnInput, &run.InputTokens},
		{columnOutput, &run.OutputTokens}, {columnReasoning, &run.ReasoningTokens}} {
		text := clean(f[one.name])
		if text == "" {
			continue
		}
		if *one.to = whole(text); *one.to == nil {
			b.fail(row, prefix+one.name, "answers_number", "Value", shorten(text, 40), "Max", maxNumber)
			return false
		}
	}
	if text := clean(f[columnCost]); text != "" {
		if run.Cost = amount(text); run.Cost == nil {
			b.fail(row, prefix+columnCost, "answers_amount", "Value", shorten(text, 40))
			return false
		}
	}
	if text := clean(f[columnCompleted]); text != "" {
		if run.CompletedAt = moment(text); run.CompletedAt == nil {
			b.fail(row, prefix+columnCompleted, "answers_time", "Value", shorten(text, 40))
			return false
		}
	}
	return true
}

// maxNumber is the maximum number of tokens, and the maximum latency in milliseconds (eleven days).
const maxNumber = 1_000_000_000

// whole returns the non-negative number in a text, rounded; nil if there is none, or if it exceeds maxNumber.
func whole(text string) *int {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || !(number >= 0 && number <= maxNumber) {
		return nil
	}
	rounded := int(math.Round(number))
	return &rounded
}

var decimalAmount = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,20})?$`)

// amount returns an amount of money as a decimal number without an exponent; nil if the text is not an amount.
func amount(text string) *string {
	if decimalAmount.MatchString(text) {
		return &text
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || !(number >= 0 && number < 1e12) {
		return nil
	}
	plain := strconv.FormatFloat(number, 'f', -1, 64)
	if whole, fraction, _ := strings.Cut(plain, "."); len(fraction) > 20 {
		plain = whole + "." + fraction[:20]
	}
	return &plain
}

// beijing is the time zone assumed for times that name none.
var beijing = time.FixedZone("", 8*60*60)

// moment returns the time in a text; nil if the text is not a time in the years 1970 to 9998.
func moment(text string) *time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999",
		"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999", "2006-01-02 15:04", "2006/1/2 15:04:05",
		"2006/1/2 15:04", "2006-01-02", "2006/1/2"} {
		at, err := time.ParseInLocation(layout, text, beijing)
		if err == nil && at.UTC().Year() >= 1970 && at.UTC().Year() < 9999 {
			return &at
		}
	}
	return nil
}
