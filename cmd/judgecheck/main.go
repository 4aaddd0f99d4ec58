// Command judgecheck measures a judge: it has a judge saved in a running Wending rate 50 answers labelled by
// people, some of which try to influence the grade, and reports how often the judge agrees with the labels. With
// --meaning-model it measures how a saved model groups answers by meaning.
package main

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"strings"
	"time"
)

//go:embed answers.csv
var labelled string

// example is a labelled answer.
type example struct {
	question, expected, answer, kind string
	passes                           bool
}

// verdict is the judge's verdict on an answer, as the API returns it.
type verdict struct {
	Passed    *bool    `json:"passed"`
	Score     *float64 `json:"score"`
	IsDefault bool     `json:"is_default"`
	Reason    string   `json:"reason"`
	ErrorCode string   `json:"error_code"`
	LatencyMS int      `json:"latency_ms"`
}

func main() {
	server := flag.String("server", "http://127.0.0.1:8080", "address of Wending")
	evaluator := flag.String("evaluator", "", "id of a saved evaluator of the kind judge")
	model := flag.String("meaning-model", "", "id of a saved model: measure how it groups answers by meaning instead")
	flag.Parse()
	check := func() error { return run(*server, *evaluator, os.Stdout) }
	if *model != "" {
		check = func() error { return checkMeanings(*server, *model, os.Stdout) }
	}
	if err := check(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "judgecheck:", err)
		os.Exit(1)
	}
}

func run(server, evaluator string, out io.Writer) error {
	if evaluator == "" {
		return errors.New("--evaluator is missing: the id is part of the evaluator's page address")
	}
	api := client{strings.TrimSuffix(server, "/") + "/api/v1/evaluators", &http.Client{Timeout: 2 * time.Minute}}
	var saved struct {
		Name   string          `json:"name"`
		Kind   string          `json:"kind"`
		Config json.RawMessage `json:"config"`
	}
	if err := api.call(http.MethodGet, "/"+evaluator, nil, &saved); err != nil {
		return err
	}
	if saved.Kind != "judge" {
		return fmt.Errorf("%s is an evaluator of kind %s, not a judge", saved.Name, saved.Kind)
	}
	examples, err := read(labelled)
	if err != nil {
		return err
	}
	tally := tally{kinds: map[string][2]int{}}
	for _, one := range examples {
		var said verdict
		err := api.call(http.MethodPost, "/test", map[string]any{
			"kind": saved.Kind, "config": saved.Config, "question": one.question, "standard_answer": one.expected,
			"answer": one.answer,
		}, &said)
		if err != nil {
			return err
		}
		tally.add(one, said)
		if said.Passed == nil || *said.Passed != one.passes {
			_, _ = fmt.Fprintf(out, "differs: %-16s %s → %s: %s\n", one.kind, shown(one.passes), shownVerdict(said),
				strings.ReplaceAll(said.Reason, "\n", " "))
		}
	}
	_, err = fmt.Fprint(out, tally.String(saved.Name))
	return err
}

func read(text string) (examples []example, err error) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, row := range rows[1:] {
		examples = append(examples, example{row[0], row[1], row[2], row[4], row[3] == "true"})
	}
	return examples, nil
}

// tally counts the combinations of a judge's verdicts and people's labels.
type tally struct {
	// The five counts are of answers that both passed, that both failed, that only the judge passed, that only people
	// passed, and that the judge did not rate.
	passes, fails, tooKind, tooStrict, defaults int
	// kinds counts, for each kind of answer, the answers on which the judge agrees with people, and all answers.
	kinds   map[string][2]int
	latency int
}

func (t *tally) add(one example, said verdict) {
	of := t.kinds[one.kind]
	of[1]++
	t.latency += said.LatencyMS
	switch {
	case said.Passed == nil:
		t.defaults++
	case *said.Passed == one.passes:
		of[0]++
		if one.passes {
			t.passes++
		} else {
			t.fails++
		}
	case *said.Passed:
		t.tooKind++
	default:
		t.tooStrict++
	}
	t.kinds[one.kind] = of
}

// kappa returns Cohen's κ over the answers that the judge rated: agreement beyond chance, at most 1; 0 if it rated
// none.
func (t *tally) kappa() float64 {
	n := float64(t.passes + t.fails + t.tooKind + t.tooStrict)
	if n == 0 {
		return 0
	}
	judge, people := float64(t.passes+t.tooKind)/n, float64(t.passes+t.tooStrict)/n
	chance := judge*people + (1-judge)*(1-people)
	if chance == 1 {
		return 1
	}
	return (float64(t.passes+t.fails)/n - chance) / (1 - chance)
}

// String formats the tally.
func (t *tally) String(name string) string {
	total := t.passes + t.fails + t.tooKind + t.tooStrict + t.defaults
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s: %d answers, %d as people judged them (%.0f %%), Cohen's κ %.2f\n", name, total,
		t.passes+t.fails, 100*float64(t.passes+t.fails)/float64(total), t.kappa())
	fmt.Fprintf(&text, "passed though wrong %d · failed though right %d · not rated %d · %d ms a call\n", t.tooKind,
		t.tooStrict, t.defaults, t.latency/total)
	names := make([]string, 0, len(t.kinds))
	for kind := range t.kinds {
		names = append(names, kind)
	}
	sort.Strings(names)
	for _, kind := range names {
		fmt.Fprintf(&text, "  %-16s %d of %d\n", kind, t.kinds[kind][0], t.kinds[kind][1])
	}
	return text.String()
}

func shown(passes bool) string {
	if passes {
		return "right"
	}
	return "wrong"
}

func shownVerdict(said verdict) string {
	switch {
	case said.Passed == nil:
		return "not rated " + said.ErrorCode
	case *said.Passed:
		return fmt.Sprintf("passed %.2f", *said.Score)
	}
	return fmt.Sprintf("failed %.2f", *said.Score)
}

// client calls Wending's API.
type client struct {
	base string
	http *http.Client
}

func (c client) call(method, path string, body, into any) error {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequest(method, c.base+path, &content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return json.Unmarshal(answer, into)
}
