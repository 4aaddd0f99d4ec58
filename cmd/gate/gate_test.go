package gate

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func specOf(t *testing.T, text string) (Spec, error) {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "q.csv"), []byte("question,standard_answer\na,b\n"), 0o600))
	path := filepath.Join(folder, "task.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return ReadSpec(path, func(name string) (string, bool) { return "value of " + name, name == "TOKEN" })
}

func TestAFileIsReadWithItsLines(t *testing.T) {
	t.Parallel()
	spec, err := specOf(t, `# a comment
task_name: nightly
dataset_file: q.csv
agent_api_url: http://127.0.0.1:9/
agent_api_headers: {Authorization: "Bearer ${TOKEN}"}
runs_per_item: 5
use_stream: false
evaluators:
  - 6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21
  - {name: right, kind: exact}
fail_under: {agreement: 0.8, pass_rate: 90%}
baseline: 0b9e7a55-1c1d-4a37-8f4e-6f2f5f0f9a02
`)
	require.NoError(t, err)
	require.Equal(t, "nightly", spec.Task["task_name"])
	require.Equal(t, map[string]any{"Authorization": "Bearer value of TOKEN"}, spec.Task["agent_api_headers"])
	require.Equal(t, 5, spec.Task["runs_per_item"])
	require.Equal(t, []string{"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"}, spec.Task["evaluators"])
	require.Equal(t, "right", spec.Inline["evaluators"][0]["name"])
	require.Equal(t, map[string]float64{"agreement": 0.8, "pass_rate": 0.9}, spec.FailUnder)
	require.Equal(t, 6, spec.Lines["runs_per_item"])
	require.Equal(t, "q.csv", filepath.Base(spec.Dataset))
	require.NotContains(t, spec.Task, "dataset_file")
	require.NotContains(t, spec.Task, "baseline")
}

func TestWhatIsWrongWithAFileHasItsLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                         ":1: the file must be a mapping",
		"- a\n- b":                                 ":1: the file must be a mapping",
		"agent_api_url: x":                         ":1: task_name is missing",
		"task_name: a\n\nruns_per_itm: 5":          ":3: unknown field runs_per_itm",
		"task_name: a\nruns_per_item: five":        ":2: runs_per_item must be a number",
		"task_name: a\nruns_per_item: 1.5":         ":2: runs_per_item must be a number",
		"task_name: a\nuse_stream: maybe":          ":2: use_stream must be true or false",
		"task_name: [a]":                           ":1: task_name must be text",
		"task_name: a\nmodels: b":                  ":2: models must be a list",
		"task_name: a\nchannels:\n  - {name: b}":   ":3: channels must be a list of ids",
		"task_name: a\nagents:\n  - {url: b}":      ":3: an entry of agents needs a name",
		"task_name: a\ndataset_file: none.csv":     ":2: dataset_file: /",
		"task_name: a\nagent_model: ${NOBODY}":     ":2: ${NOBODY} is not set",
		"task_name: a\nfail_under:\n  beauty: 1":   ":3: fail_under: ",
		"task_name: a\nfail_under: {agreement: 3}": ":2: fail_under: ",
		"task_name: a\ntask_name: b":               ":2: ",
		"task_name: [a\nb: c":                      ":",
	} {
		_, err := specOf(t, text)
		require.ErrorContains(t, err, "task.yaml"+want, text)
	}
}

func TestTheServersRefusalLeadsToALine(t *testing.T) {
	t.Parallel()
	spec := Spec{File: "task.yaml", Lines: map[string]int{"runs_per_item": 7, "agent_api_url": 3}}
	refusal := &RefusalError{Code: "PARAMETER_INVALID", Message: "bad",
		Details: []Detail{{Column: "runs_per_item", Message: "1–20"}}}
	require.EqualError(t, spec.located(refusal), "task.yaml:7: 1–20")
	require.EqualError(t, spec.located(&RefusalError{Code: "AGENT_URL_INVALID", Message: "no address"}),
		"task.yaml:3: no address")
	require.EqualError(t, spec.located(&RefusalError{Code: "TASK_TOO_LARGE", Message: "large"}), "TASK_TOO_LARGE: large")
}

func share(value float64) *float64 { return &value }

func TestLimitsAndLosses(t *testing.T) {
	t.Parallel()
	r := report{Variants: []variant{{Number: 1, Agreement: share(0.8)}, {Number: 2, Agreement: share(0.79)}},
		Differences: map[int]map[string]difference{
			1: {
				"success_rate": {Difference: share(0), SE: share(0), Interval: &[]float64{0, 0}, N: 10, Clusters: 10},
				"agreement":    {Difference: share(-0.2), SE: share(0.04), Interval: &[]float64{-0.29, -0.11}, N: 10, Clusters: 10},
				"pass_share":   {Difference: share(-0.2), SE: share(0.14), Interval: &[]float64{-0.52, 0.12}, N: 10, Clusters: 10},
			},
			2: {
				"success_rate": {Difference: share(0), SE: share(0), Interval: &[]float64{0, 0}, N: 10, Clusters: 10},
				"agreement":    {Difference: share(0.2), SE: share(0.04), Interval: &[]float64{0.11, 0.29}, N: 10, Clusters: 10},
				"score":        {Difference: share(-0.1), N: 1, Clusters: 1},
			},
		}}
	limits := r.limits(map[string]float64{"agreement": 0.8, "pass_rate": 0.5})
	passed := make([]bool, len(limits))
	for n, one := range limits {
		passed[n] = one.outcome == isPassed
	}
	require.Equal(t, []bool{true, false, false, false}, passed, "at the limit is enough; what is unknown is not")
	told := func(margins map[string]float64, needsProof bool) (texts []string) {
		for _, one := range r.losses(margins, needsProof) {
			texts = append(texts, fmt.Sprintf("%s %d: %s", one.outcome, one.variant, one.text))
		}
		return texts
	}
	require.Equal(t, []string{
		"ok 1: success_rate changed by +0.0 points, 95% interval +0.0 … +0.0, 10 questions: not worse",
		"FAIL 1: agreement changed by -20.0 points, 95% interval -29.0 … -11.0, 10 questions: worse (adjusted p 0.0011)",
		"WARN 1: pass_rate changed by -20.0 points, 95% interval -52.0 … +12.0, 10 questions: undecided, " +
			"a comparison of this size shows a difference of 39.2 points in four of five cases",
		"ok 2: success_rate changed by +0.0 points, 95% interval +0.0 … +0.0, 10 questions: not worse",
		"ok 2: agreement changed by +20.0 points, 95% interval +11.0 … +29.0, 10 questions: not worse",
		"WARN 2: score_mean changed by -10.0 points, one question, so no interval is known: undecided",
	}, told(nil, false))
	texts := told(map[string]float64{"agreement": 0.3, "pass_rate": 0.1, "latency_ms": 100}, true)
	require.Contains(t, texts,
		"ok 1: agreement changed by -20.0 points, 95% interval -29.0 … -11.0, 10 questions, margin 30.0 points: not worse")
	require.Contains(t, texts[2], "FAIL 1: pass_rate changed", "what must be proved and is not")
	require.Contains(t, texts,
		"FAIL 1: latency_ms cannot be compared: it is not known for any question in both tasks, margin 100 ms: undecided")
	require.Contains(t, texts,
		"WARN 2: score_mean changed by -10.0 points, one question, so no interval is known: undecided",
		"without a margin there is nothing to prove")
	var written strings.Builder
	r.write(&written, r.losses(nil, false))
	require.Equal(t, 1, strings.Count(written.String(), "The 95% interval very likely contains the true difference."))
	require.Contains(t, r.markdown(r.losses(nil, false)), "Undecided: the data show neither")
	r.Differences = nil
	require.NotContains(t, r.markdown(nil), "interval", "nothing was compared")
}

// Every question must pass in enough of the planned runs; a run that failed or has no verdict has not passed.
func TestEveryQuestionPassesOftenEnough(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	runs := func(verdicts ...*bool) (list []run) {
		for n, verdict := range verdicts {
			one := run{Variant: 1, Index: n + 1, Status: "SUCCEEDED"}
			if verdict != nil {
				one.Evaluations = []evaluation{{Name: "right", Passed: verdict}}
			}
			list = append(list, one)
		}
		return list
	}
	r := report{RunsPerItem: 5, Variants: []variant{{Number: 1}}, Questions: []question{
		{ID: "q1", Runs: runs(&yes, &yes, &yes, &yes, &no)}, {ID: "q2", Runs: runs(&yes, &yes, &yes, &yes, nil, &yes)},
	}}
	check := r.limits(map[string]float64{itemPass: 0.8})[0]
	require.Equal(t, isPassed, check.outcome, check.text)
	r.Questions = append(r.Questions, question{ID: "q3", Runs: runs(&yes, &yes, &yes, nil, nil, &yes)})
	check = r.limits(map[string]float64{itemPass: 0.8})[0]
	require.Equal(t, isFailed, check.outcome)
	require.Equal(t, "item_pass: 2 of 3 questions pass in at least 80.0% of their runs; not q3 (3/5)", check.text)
	for text, want := range map[string]float64{"item_pass=4/5": 0.8, "item_pass = 2 / 3": 2.0 / 3, "item_pass=80%": 0.8,
		"item_pass=1": 1} {
		_, value, err := ParseLimit(text)
		require.NoError(t, err, text)
		require.InDelta(t, want, value, 1e-9)
	}
	for _, text := range []string{"item_pass=6/5", "item_pass=1/0", "item_pass=a/b", "item_pass=-1/5", "item_pass=4/5/6",
		"item_pass=2"} {
		_, _, err := ParseLimit(text)
		require.Error(t, err, text)
	}
}

func TestMarginsAreRead(t *testing.T) {
	t.Parallel()
	spec, err := specOf(t, "task_name: a\nmargin: {agreement: 0.05, score: 5%, latency_ms: 200}\n")
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"agreement": 0.05, "score_mean": 0.05, "latency_ms": 200}, spec.Margins)
	for _, text := range []string{"agreement=-0.1", "agreement=2", "agreement", "beauty=1", "latency_ms=-5",
		"pass_rate=NaN"} {
		_, _, err := ParseMargin(text)
		require.Error(t, err, text)
	}
}

// The table for a merge request shows texts from the task as text, never as markup.
func TestATableForAMergeRequest(t *testing.T) {
	t.Parallel()
	r := report{Name: "夜间 | <b>", URL: "http://127.0.0.1:8080/tasks/1",
		Variants: []variant{{Number: 1, Name: "a|b\n`c`", Succeeded: 9, RunsExpected: 10, Agreement: share(0.8)}}}
	text := r.markdown([]check{{outcome: isWarned, text: "agreement | undecided"}})
	require.Equal(t, `### [夜间 \| \<b\>](http://127.0.0.1:8080/tasks/1): passed

| variant | succeeded | agreement | identical | pass rate | P50 | cost |
| --- | --: | --: | --: | --: | --: | --: |
| a\|b \`+"`c\\`"+` | 9/10 | 80.0% | unknown | unknown | – | – |

|  | check |
| --- | --- |
| ⚠️ undecided | agreement \| undecided |

`, text)
}

// Latency and cost must not exceed their limits.
func TestSomeLimitsAreUpperOnes(t *testing.T) {
	t.Parallel()
	cost := "0.5"
	r := report{Variants: []variant{{Number: 1, LatencyP90: share(900), Cost: &cost},
		{Number: 2, LatencyP90: share(1100)}}}
	texts := map[string]bool{}
	for _, one := range r.limits(map[string]float64{"latency_p90_ms": 1000, "cost": 0.5}) {
		texts[one.text] = one.outcome == isPassed
	}
	require.Equal(t, map[string]bool{
		"latency_p90_ms is 900 ms, the limit is 1000 ms": true, "latency_p90_ms is 1100 ms, the limit is 1000 ms": false,
		"cost is 0.5, the limit is 0.5": true, "cost is unknown, the limit is 0.5": false,
	}, texts)
	for _, text := range []string{"latency_p90_ms=2000", "cost=0.25"} {
		_, value, err := ParseLimit(text)
		require.NoError(t, err)
		require.Positive(t, value)
	}
	for _, text := range []string{"latency_p90_ms=-1", "cost=50%", "cost=NaN", "latency_p90_ms=Inf", "latency_p50_ms=5"} {
		_, _, err := ParseLimit(text)
		require.Error(t, err, text)
	}
}

// With one rule the score equals the pass share, so a decline is reported only once.
func TestTheSameLossIsSaidOnce(t *testing.T) {
	t.Parallel()
	same := difference{Difference: share(-0.2), SE: share(0.05), Interval: &[]float64{-0.3, -0.1}, N: 10, Clusters: 10}
	other := difference{Difference: share(-0.1), SE: share(0.03), Interval: &[]float64{-0.2, -0.05}, N: 10, Clusters: 10}
	r := report{Variants: []variant{{Number: 1}},
		Differences: map[int]map[string]difference{1: {"success_rate": same, "pass_share": same, "score": same}}}
	require.Len(t, r.losses(nil, false), 2)
	r.Differences[1]["score"] = other
	require.Len(t, r.losses(nil, false), 3)
}

// Limits that no result can meet are rejected before anything is sent.
func TestWhatCannotBeJudgedIsSaidFirst(t *testing.T) {
	t.Parallel()
	spec, err := specOf(t, "task_name: a\nagent_api_url: http://127.0.0.1:9/\ndataset_file: q.csv\nruns_per_item: 1\n")
	require.NoError(t, err)
	for metric, want := range map[string]string{"pass_rate": "needs evaluators", "agreement": "runs_per_item is 1",
		"meaning_agreement": "no meaning_model"} {
		require.ErrorContains(t, Options{Spec: spec, FailUnder: map[string]float64{metric: 0.5}}.check(t.Context(), Client{}),
			want)
	}
	require.NoError(t, Options{Spec: spec, FailUnder: map[string]float64{"success_rate": 0.5}}.check(t.Context(),
		Client{}))
	for want, options := range map[string]Options{
		"--require-proof needs a baseline": {RequireProof: true},
		"a margin needs a baseline":        {Margins: map[string]float64{"success_rate": 0.1}},
		"--require-proof needs a margin above 0": {RequireProof: true, Baseline: "x",
			Margins: map[string]float64{"success_rate": 0}},
		"the margin of pass_rate needs evaluators": {Baseline: "x", Margins: map[string]float64{"pass_rate": 0.1}},
		"the limit of item_pass needs evaluators":  {FailUnder: map[string]float64{itemPass: 0.8}},
		"does not exist": {Markdown: filepath.Join(t.TempDir(), "none", "table.md")},
		"it is a folder": {JUnit: t.TempDir()},
	} {
		options.Spec = spec
		require.ErrorContains(t, options.check(t.Context(), Client{}), want)
	}
}

func TestAReportForCIServers(t *testing.T) {
	t.Parallel()
	code, message, letters, milliseconds := "HTTP_500", "no \x00 <good>", "AB", 1500
	failed := false
	r := report{Name: "nightly", ID: "t1", Variants: []variant{{Number: 1, Agreement: share(0.4)}},
		Questions: []question{{ID: "q1", Text: "Which\ncity?"}, {ID: "q2", Text: strings.Repeat("长", 200)}, {ID: "q3"}}}
	r.Questions[0].Runs = []run{{Variant: 1, Index: 1, Status: "SUCCEEDED", LatencyMS: &milliseconds}}
	r.Questions[0].Variants = append(r.Questions[0].Variants, struct {
		Number    int      `json:"number"`
		Agreement *float64 `json:"agreement"`
		Letters   *string  `json:"letters"`
		PassShare *float64 `json:"pass_share"`
	}{1, share(1), &letters, share(1)})
	r.Questions[1].Runs = []run{{Variant: 1, Index: 1, Status: "FAILED", ErrorCode: &code, ErrorMessage: &message},
		{Variant: 2, Status: "FAILED"}}
	r.Questions[2].Variants = append(r.Questions[2].Variants, r.Questions[0].Variants[0])
	r.Questions[2].Variants[0].PassShare = share(0.5)
	r.Questions[2].Runs = []run{{Variant: 1, Index: 1, Status: "SUCCEEDED"}}
	r.Questions[2].Runs[0].Evaluations = append(r.Questions[2].Runs[0].Evaluations,
		evaluation{"right", &failed, "“41” ≠ “42”"})
	var text bytes.Buffer
	require.NoError(t, writeJUnit(&text, r, r.limits(map[string]float64{"agreement": 0.5})))
	var read suites
	require.NoError(t, xml.Unmarshal(text.Bytes(), &read))
	require.Equal(t, 4, read.Tests)
	require.Equal(t, 2, read.Failures)
	require.Equal(t, 1, read.Errors)
	cases := read.Suites[0].Cases
	require.Equal(t, "q1: Which city?", cases[0].Name)
	require.Equal(t, "1.500", cases[0].Time)
	require.Contains(t, cases[0].Out, "answers AB, agreement 100.0%")
	require.Equal(t, "run 1: FAILED HTTP_500: no \uFFFD <good>", cases[1].Error.Message)
	require.LessOrEqual(t, len([]rune(cases[1].Name)), 90)
	require.Equal(t, "50.0% of the runs pass", cases[2].Failure.Message)
	require.Contains(t, cases[2].Failure.Text, "“41” ≠ “42”")
	require.Equal(t, "limit", read.Suites[1].Cases[0].Failure.Type)
	require.Equal(t, []property{{"task", "t1"}, {"agreement", "0.4"}}, read.Suites[0].Properties.List)
	require.Equal(t, []property{{"metric", "agreement"}, {"value", "0.4"}, {"limit", "0.5"}},
		read.Suites[1].Cases[0].Properties.List)
}

// Reading a file that never ends fails at the size limit.
func TestFilesAreReadWithBounds(t *testing.T) {
	t.Parallel()
	_, err := ReadSpec("/dev/zero", os.LookupEnv)
	require.ErrorContains(t, err, "/dev/zero is larger than 1 MB")
	spec, err := specOf(t, "task_name: a\ndataset_file: /dev/zero\n")
	require.NoError(t, err)
	_, err = Client{Server: "http://127.0.0.1:9", HTTP: http.DefaultClient}.Create(t.Context(), spec, "")
	require.ErrorContains(t, err, "/dev/zero is larger than 64 MB")

	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	_, err = writer.WriteString("task_name: from a pipe\n")
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	spec, err = ReadSpec(fmt.Sprintf("/proc/self/fd/%d", reader.Fd()), os.LookupEnv)
	require.NoError(t, err)
	require.Equal(t, "from a pipe", spec.Task["task_name"])
}

// A cost limit needs the prices of every model that is called; without them, nothing is called.
func TestALimitOfTheCostNeedsPrices(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/models/priced":
			_, _ = w.Write([]byte(`{"name": "priced", "input_price": "1", "output_price": "2"}`))
		case "/api/v1/agents/free":
			_, _ = w.Write([]byte(`{"name": "free", "input_price": null, "output_price": null}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code": "NOT_FOUND", "message": "gone"}`))
		}
	}))
	t.Cleanup(server.Close)
	check := func(s Spec) error {
		return Options{Spec: s, FailUnder: map[string]float64{"cost": 1}}.check(t.Context(),
			Client{Server: server.URL, HTTP: server.Client()})
	}
	require.NoError(t, check(Spec{Task: map[string]any{"models": []string{"priced"}}}))
	require.ErrorContains(t, check(Spec{Task: map[string]any{"models": []string{"priced"}, "agents": []string{"free"}}}),
		"free has none")
	require.ErrorContains(t, check(Spec{Task: map[string]any{"models": []string{"deleted"}}}), "NOT_FOUND")
	require.ErrorContains(t, check(Spec{Task: map[string]any{"agent_api_url": "http://a.test"}}),
		"which an agent_api_url does not have")
	inline := func(entry map[string]any) Spec {
		return Spec{Task: map[string]any{}, Inline: map[string][]map[string]any{"models": {entry}}}
	}
	require.ErrorContains(t, check(inline(map[string]any{"name": "new"})), "new has none")
	require.NoError(t, check(inline(map[string]any{"name": "new", "input_price": "1", "output_price": 2})))
}

// A limit that relies on a judge is only as good as the judge: people's verdicts must show that the judge is fit to
// gate.
func TestJudgesThatAreNotFitToGate(t *testing.T) {
	t.Parallel()
	kappa, gate, trend := 0.55, "gate", "trend"
	of := func(kind string, fitness *string) (one evaluator) {
		one.Name, one.Kind, one.Record.N, one.Record.Fitness = "j", kind, 40, fitness
		if fitness != nil {
			one.Record.Kappa = &kappa
		}
		return one
	}
	passing, stable := map[string]float64{"pass_rate": 0.9}, map[string]float64{"agreement": 0.8}
	warned := func(limits, margins map[string]float64, all ...evaluator) string {
		return strings.Join(report{Evaluators: all}.unfit(limits, margins), "\n")
	}
	require.Contains(t, warned(passing, nil, of("judge", &trend)), "κ with people is 0.55 on 40 answers")
	require.Contains(t, warned(passing, nil, of("judge", nil)), "not shown to be fit")
	require.Contains(t, warned(map[string]float64{itemPass: 0.8}, nil, of("judge", nil)), "the judge j")
	require.Contains(t, warned(nil, map[string]float64{"pass_share": 0}, of("judge", &trend)), "the judge j")
	require.Empty(t, warned(passing, nil, of("judge", &gate)))
	require.Empty(t, warned(passing, nil, of("exact", nil)), "rules need no people")
	require.Empty(t, warned(stable, stable, of("judge", &trend)), "no limit rests on the judge")
}
