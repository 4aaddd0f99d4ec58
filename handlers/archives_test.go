package handlers_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// archived creates a task with everything that archives may contain – a rule and a judge, a conversation, answers that
// are not text, and failures – and returns the files of its archive by name.
func (s *site) archived(t *testing.T) (parts map[string]string) {
	t.Helper()
	judging := agenttest.New(t, chatting(func(prompt string) string {
		if strings.Contains(prompt, "answer to 单") {
			return "no comment"
		}
		return `{"overall": 90, "accuracy": 80, "reason": "right"}`
	}))
	model, _ := s.chatTarget(t, "judge", judging.URL)
	s.entry(t, "PATCH", "models/"+model, object{"input_price": "2", "output_price": "10", "currency": "CNY"}, 200)
	judge := s.evaluator(t, "打分", "judge", object{"model_id": model, "dimensions": []string{"overall", "accuracy"}})
	rule := s.evaluator(t, "规则", "regex", object{"pattern": "answer"})
	var broken sync.Once
	var odd atomic.Int64
	picture := base64.StdEncoding.EncodeToString(pngOf(t, 40, 30, 70))
	preview := base64.StdEncoding.EncodeToString(pngOf(t, 8, 8, 11))
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		switch call.Question {
		case "坏":
			w.WriteHeader(http.StatusBadGateway)
		case "字节":
			broken.Do(func() { panic(http.ErrAbortHandler) }) // the failed question is asked again
			agenttest.Stream(w, "a\x00b")
		case "一":
			w.Header().Set("Content-Type", "text/event-stream")
			say(w, `{"event":"tool_started","data":{"tool":"draw","id":"t1","input":{"a":1,"a":2,"B":"<b>","c":"\u0000\ud83d"}}}`,
				`{"event":"task_progress","data":{"percent":50,"preview_url":"data:image/png;base64,`+preview+`"}}`,
				`{"event":"asset","data":{"type":"image","path":"一/图.png","url":"data:image/png;base64,`+picture+`"}}`,
				`{"event":"asset","data":{"type":"image","url":"http://127.0.0.1:9/gone.png"}}`,
				`{"event":"tool_finished","data":{"tool":"draw","id":"t1","output":{"ok":true}}}`,
				`{"event":"node_finished","data":{"output":"answer to 一"}}`)
		case "单":
			agenttest.Stream(w, "answer to 单"+strings.Repeat("!", int(odd.Add(1)%2)))
		default:
			agenttest.Stream(w, "answer to "+call.Question)
		}
	})
	id := s.create(t, fake.URL, map[string]string{
		"evaluators": rule + "," + judge, "runs_per_item": "2", "rate_limit": "unlimited", "concurrency": "4",
		"max_cost":   "12.5",
		"file@q.csv": "question_id,question,standard_answer,系列,series,turn\nq1,一,a,x,s,1\nq2,二,b,y,s,2\nq3,单,c,z,,\nq4,坏,d,z,,\nq5,字节,e,z,,\n",
	})
	s.awaitDone(t, id)
	s.tables.MustExec(`UPDATE assets SET state = 'FAILED', error = 'gone' WHERE path = 'gone.png'`)
	s.awaitAssets(t, id)
	s.awaitSettled(t, id)
	s.entry(t, "POST", "evaluation-tasks/"+id+"/samples", object{"size": 3, "seed": 7}, 201)
	s.tables.MustExec(`
		INSERT INTO corrections (item_id, variant, version, reviewer, keys, groups, contents)
		SELECT i.id, 1, 2, '李雷', array_agg(DISTINCT r.answer_key), '{0,0}', '{0,1}'
		FROM evaluation_items i
		JOIN evaluation_runs r ON r.item_id = i.id AND r.is_current
		WHERE i.task_id = $1 AND i.question_id = 'q3'
		GROUP BY i.id`, id)
	parts = s.partsOf(t, id)
	maps.DeleteFunc(parts, func(name, _ string) bool {
		return strings.HasPrefix(name, "report.") // they would take most of the test's time, and are not imported
	})
	return parts
}

// awaitSettled waits until the last events of a task's calls, and their previews, have been stored.
func (s *site) awaitSettled(t *testing.T, id string) {
	t.Helper()
	dbtest.Await(t, 30*time.Second, "the last events", func() (is bool) {
		require.NoError(t, s.tables.Get(&is,
			`SELECT max(created_at) < now() - interval '3 seconds' FROM evaluation_runs WHERE task_id = $1`, id))
		return is
	})
	s.awaitAssets(t, id)
}

// partsOf returns the files of a task's archive by name.
func (s *site) partsOf(t *testing.T, id string) (parts map[string]string) {
	t.Helper()
	whole := s.get(t, api+"/"+id+"/archive").body
	parts = map[string]string{}
	files, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
	require.NoError(t, err)
	for _, one := range files.File {
		content, err := one.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(content)
		require.NoError(t, err)
		parts[one.Name] = string(text)
	}
	return parts
}

// packed returns an archive of the files in parts, with the manifest that hashed returns.
func packed(t *testing.T, parts map[string]string) []byte {
	t.Helper()
	return zipped(t, hashed(t, parts))
}

// hashed returns parts with a manifest that has their current hashes. A manifest of the older format, which has no
// hashes, stays unchanged.
func hashed(t *testing.T, parts map[string]string) map[string]string {
	t.Helper()
	var about map[string]any
	if json.Unmarshal([]byte(parts["manifest.json"]), &about) == nil && about["parts"] != nil {
		sums := map[string]string{}
		for name, text := range parts {
			if name != "manifest.json" {
				sum := sha256.Sum256([]byte(text))
				sums[strings.TrimPrefix(name, "another ")] = hex.EncodeToString(sum[:])
			}
		}
		about["parts"] = sums
		text, err := json.Marshal(about)
		require.NoError(t, err)
		parts = maps.Clone(parts)
		parts["manifest.json"] = string(text)
	}
	return parts
}

// zipped returns a ZIP file of the files in parts.
func zipped(t *testing.T, parts map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		file, err := writer.Create(strings.TrimPrefix(name, "another "))
		require.NoError(t, err)
		_, err = io.WriteString(file, parts[name])
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	return out.Bytes()
}

// altered returns a JSON object in which the member at a path, such as targets.0.kind, has another JSON value.
func altered(t *testing.T, text, path, value string) string {
	t.Helper()
	var whole any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&whole))
	steps := strings.Split(path, ".")
	at := whole
	for _, step := range steps[:len(steps)-1] {
		if index, err := strconv.Atoi(step); err == nil {
			at = at.([]any)[index]
		} else {
			at = at.(map[string]any)[step]
		}
	}
	last := steps[len(steps)-1]
	if index, err := strconv.Atoi(last); err == nil {
		at.([]any)[index] = json.RawMessage(value)
	} else {
		at.(map[string]any)[last] = json.RawMessage(value)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	if strings.Contains(strings.TrimSpace(text), "\n") {
		encoder.SetIndent("", "  ")
	}
	require.NoError(t, encoder.Encode(whole))
	return out.String()
}

// wrongValue is a value that is invalid at a position in an archive. column is the position that the error must name;
// empty means the path.
type wrongValue struct {
	file   string
	line   int
	path   string
	value  string
	column string
}

var index = regexp.MustCompile(`\.(\d+)`)

// member returns the path in the form that errors use, in which the positions in lists count from 1.
func (w wrongValue) member() string {
	if w.column != "" {
		return w.column
	}
	return index.ReplaceAllStringFunc(w.path, func(step string) string {
		n, _ := strconv.Atoi(step[1:])
		return fmt.Sprintf("[%d]", n+1)
	})
}

func quotedText(n int, char string) string { return `"` + strings.Repeat(char, n) + `"` }

func listOf(n int, value string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(value+",", n), ",") + "]"
}

// wrongValues returns values that broke pages, or would break them, and values beyond the limits of forms.
func wrongValues() (all []wrongValue) {
	header := func(path string, values ...string) {
		for _, value := range values {
			all = append(all, wrongValue{file: "task.json", path: path, value: value})
		}
	}
	header("name", `""`, `"  "`, quotedText(65, "长"), `"a\u0000b"`, `7`)
	header("status", `"RUNNING"`, `"GREAT"`, `null`)
	header("runs_per_item", `0`, `21`, `99999999999`, `"5"`, `1.5`)
	header("timeout_seconds", `0`, `3601`)
	header("max_retries", `-1`, `6`)
	header("concurrency", `0`, `65`)
	header("use_stream", `"yes"`)
	header("max_cost", `"-1"`, `"abc"`, `"NaN"`, `"0"`, `"1e400"`, `12`, quotedText(40_000, "7"))
	header("on_turn_failure", `"explode"`)
	header("dataset_name", `"a\u0000.csv"`)
	header("dataset_extension", `"exe"`)
	header("question_column", quotedText(256, "长"), `"\u0000"`)
	header("variable_names.0", `""`, `"\u0000"`, quotedText(256, "长"))
	header("variable_names.1", `"系列"`)
	header("created_at", `"infinity"`, `"never"`, `"1969-12-31T23:59:59Z"`, `"9999-12-31T23:59:59-05:00"`, `12`)
	header("completed_at", `"-infinity"`)
	header("secret", `1`)
	header("targets", `null`)
	header("targets.0.number", `2`)
	header("targets.0.kind", `"zzz"`)
	header("targets.0.name", quotedText(65, "a"), `"\u0000"`)
	header("targets.0.protocol", `"gopher"`)
	header("targets.0.url", `"gopher://a/"`, `"http://u:p@a/"`, `"http://a/`+strings.Repeat("a", 2048)+`"`, `""`)
	header("targets.0.model", quotedText(201, "m"))
	header("targets.0.rate_limit", `"often"`, `"1.`+strings.Repeat("0", 40_000)+`/s"`)
	header("targets.0.retry_on", `["never"]`)
	header("targets.1.input_price", `"x"`, `"-1"`, `"NaN"`, `"1e400"`, quotedText(40_000, "1"))
	header("targets.1.output_price", `"1e60000"`)
	header("targets.1.currency", quotedText(100_000, "X"), `"cny"`)
	header("targets.0.poll", `{}`,
		`{"url_path":"a","interval_seconds":0,"done_path":"b","done_values":["c"],"result_path":"d"}`,
		`{"url_path":"\u0000","interval_seconds":5,"done_path":"b","done_values":["c"],"result_path":"d"}`)
	header("targets.0.key", `"secret"`)
	header("variants", `[]`, listOf(21, `{"number":1,"target":1,"name":"","system":null,"user":null}`))
	header("variants.0.number", `2`)
	header("variants.0.target", `7`, `2`, `0`, `-1`)
	header("variants.0.system", quotedText(100_001, "s"), `"\u0000"`)
	header("evaluators.0.number", `2`)
	header("evaluators.0.kind", `"zzz"`)
	header("evaluators.0.id", `"7"`)
	header("evaluators.0.version", `0`)
	header("evaluators.0.name", quotedText(65, "n"), `""`)
	header("evaluators.0.config", `{"pattern":"("}`, `{"pattern":"a","more":1}`, `[]`,
		`{"pattern":`+quotedText(70_000, "p")+`}`, `{"pattern":"a\u0000b"}`)
	header("evaluators.0.target", `2`)
	header("evaluators.1.target", `1`, `null`)
	header("evaluators.1.config", `{"model_id":"m","votes":2}`)
	header("evaluators", listOf(11, `{"number":1}`))

	item := func(line int, path string, values ...string) {
		for _, value := range values {
			all = append(all, wrongValue{file: "items.jsonl", line: line, path: path, value: value})
		}
	}
	item(3, "question_id", `""`, `"q1"`, quotedText(256, "长"), quotedText(1_000_000, "q"), `"q\u0000"`, `3`)
	item(4, "question", `""`, `" "`, `"a\u0000b"`, `null`, `["a"]`)
	item(5, "standard_answer", `"\u0000"`)
	item(5, "system_prompt", `"\u0000"`, `{}`)
	item(1, "variables", `[]`, `null`, `["a"]`, `["a","b","c","d"]`, `["a","b","c",""]`)
	item(1, "variables.1", `"\u0000"`, `7`)
	item(2, "series", `""`, quotedText(256, "s"), `"\u0000"`)
	item(2, "turn", `null`, `0`, `3`, `1`, `"2"`, `99999999999`)
	item(1, "answer", `"yes"`)

	run := func(path string, values ...string) {
		for _, value := range values {
			all = append(all, wrongValue{file: "runs.jsonl", line: 2, path: path, value: value})
		}
	}
	digits := strings.Repeat("7", 40_000)
	run("question_id", `"q9"`, `7`, quotedText(40_000, "q"))
	run("variant", `0`, `2`)
	run("run_index", `0`, `3`, `1`, `99999999999`)
	run("status", `"STOPPED"`, `"GREAT"`, `null`)
	run("response_body", `null`, `"a\u0000b"`, `7`, quotedText(8<<20+2000, "a"))
	run("response_bytes", `"%%%"`, `[1,2]`)
	run("reasoning", `"\u0000"`)
	run("latency_ms", digits, `"`+digits+`"`, `-1`, `2147483648`, `1.5`)
	run("attempts", `-1`, `99999999999`)
	run("error_code", quotedText(65, "X"), `"\u0000"`)
	run("error_message", quotedText(1<<20+1, "x"))
	run("finish_reason", `"tired"`)
	run("trace_id", `"4BF92F3577B34DA6A3CE929D0E0E4736"`, `"4bf9"`, `7`)
	run("agent_trace_id", `""`, `"a\nb"`, `"a\u202eb"`, quotedText(201, "x"), `7`)
	failed :=
		`{"attempt":1,"started_at":"2026-01-01T00:00:00Z","latency_ms":1,"error_code":"X","error_message":"m","http_status":503,"body":"b"}`
	run("failed_attempts", `7`, `[7]`, `[{}]`, "["+strings.Repeat(failed+",", 10)+failed+"]")
	for _, wrong := range [][2]string{
		{`"attempt":1`, `"attempt":0`}, {`2026-01-01T00`, `1869-01-01T00`}, {`"2026-01-01T00:00:00Z"`, `null`},
		{`"latency_ms":1`, `"latency_ms":-1`}, {`"X"`, `"\u0000"`}, {`"m"`, `"\u0000"`},
		{`503`, `"503"`}, {`503`, `99`}, {`"b"`, `"\u0000"`}, {`"body"`, `"more":1,"body"`},
	} {
		run("failed_attempts", "["+strings.Replace(failed, wrong[0], wrong[1], 1)+"]")
	}
	run("conversation_id", `"\u0000"`)
	run("created_at", `"infinity"`, `"1969-01-01T00:00:00Z"`, `"`+digits+`"`, `7`)
	run("input_tokens", `-1`, `3000000000`)
	run("total_tokens", `-1`, digits)
	run("first_token_ms", `-1`)
	run("cost", `"1e60000"`, `"1e400"`, `"NaN"`, `"-1"`, `"`+digits+`"`, `1`)
	run("score", `"NaN"`, `"Infinity"`, `1e308`, `-0.1`, `1e400`)
	run("passed", `"yes"`)
	run("surprise", `1`)
	run("evaluations", `7`, `"a"`, listOf(257, `{"evaluator":1,"status":"SKIPPED"}`))
	run("evaluations.0.evaluator", `0`, `3`)
	run("evaluations.1.evaluator", `1`)
	run("evaluations.0.status", `"GREAT"`)
	run("evaluations.0.score", `"NaN"`, `2`, `1e308`)
	run("evaluations.0.reason", `"\u0000"`)
	run("evaluations.0.cost", `"1e60000"`)
	run("evaluations.0.latency_ms", `-1`, digits)
	run("evaluations.0.version", `0`)
	run("evaluations.0.more", `1`)
	run("evaluations.1.ratings", `[1]`, `"good"`, `{"overall":101}`, `{"overall":-1}`, `{"overall":"NaN"}`, `{"\u0000":1}`,
		`{"overall":1e400}`,
		`{"a":`+digits+`}`)
	run("evaluations.1.raw", `"\u0000"`)
	run("evaluations.1.votes", `[2]`, `"a"`, listOf(101, "0.5"))
	run("longest_silence_ms", `-1`)
	return append(all, wrongCalls()...)
}

// wrongCalls returns values that parts about calls, files, samples and groupings must not have.
func wrongCalls() (all []wrongValue) {
	wrong := func(file string, line int, path string, values ...string) {
		for _, value := range values {
			all = append(all, wrongValue{file: file, line: line, path: path, value: value})
		}
	}
	wrong("task.json", 0, "dataset_encoding", `"latin1"`)
	wrong("task.json", 0, "id_column", `"\u0000"`)
	const correction = `{"variant":1,"version":1,"reviewer":"a","created_at":"2026-01-01T00:00:00Z","answers":` +
		`[{"key":"00112233445566778899aabbccddeeff","group":0,"content":0}]}`
	for _, change := range [][2]string{{`"variant":1`, `"variant":2`}, {`"version":1`, `"version":0`}, {`"a"`, `" "`},
		{`"2026-01-01T00:00:00Z"`, `null`}, {`00112233`, `0011223`}, {`"group":0`, `"group":1`},
		{`"content":0`, `"content":-1`}, {`"group"`, `"more":1,"group"`}, {correction, correction + "," + correction}} {
		wrong("items.jsonl", 1, "corrections", "["+strings.Replace(correction, change[0], change[1], 1)+"]")
	}
	wrong("events.jsonl", 1, "question_id", `"q9"`, `7`)
	wrong("events.jsonl", 1, "run_index", `3`, `0`)
	wrong("events.jsonl", 1, "events", `[]`, `null`, `7`, listOf(10_001, `{"seq":1}`))
	wrong("events.jsonl", 1, "events.0.seq", `0`, `"1"`, `99999999999`)
	wrong("events.jsonl", 1, "events.0.at_ms", `-1`, `99999999999`)
	wrong("events.jsonl", 1, "events.0.type", `"dance"`, `null`)
	wrong("events.jsonl", 1, "events.0.surprise", `1`)
	for _, data := range []string{`{"status":"GREAT"}`, `{"progress":101}`, `{"progress":-1}`, `{"attempt":-1}`,
		`{"dropped":-1}`, `{"wait_ms":99999999999}`, `{"name":` + quotedText(3000, "n") + `}`, `{"content":"AA=="}`,
		`{"raw":` + quotedText(40_000, "r") + `}`, `{"url":` + quotedText(20_000, "u") + `}`, `{"text":7}`,
		`{"Text":"a"}`, `{"text":"a","text":"b"}`} {
		all = append(all, wrongValue{file: "events.jsonl", line: 1, path: "events.0.data", value: data, column: "events[1]"})
	}
	all[len(all)-2].column, all[len(all)-1].column = "Text", "text"
	wrong("tools.jsonl", 1, "number", `0`, `-1`)
	wrong("tools.jsonl", 1, "status", `"GREAT"`, `""`)
	wrong("tools.jsonl", 1, "tool", `"\u0000"`, quotedText(3000, "t"))
	wrong("tools.jsonl", 1, "progress", `101`)
	wrong("tools.jsonl", 1, "input", quotedText(40_000, "i"))
	wrong("tools.jsonl", 1, "ended_ms", `-1`)
	wrong("tools.jsonl", 2, "run_index", `1`) // not in order: its number does not exceed the previous line's
	all[len(all)-1].column = "number"
	wrong("assets.jsonl", 2, "question_id", `"q9"`)
	wrong("assets.jsonl", 2, "run_index", `3`)
	wrong("assets.jsonl", 2, "id", `7`)
	wrong("assets.jsonl", 2, "path", `"../../x.png"`, `"/etc/passwd"`, `""`, `"a\u0000b"`, quotedText(300, "p"))
	wrong("assets.jsonl", 2, "type", `"program"`, `"audio"`)
	all[len(all)-1].column = "file"
	wrong("assets.jsonl", 2, "original_url", `"\u0000"`, `"no address"`)
	wrong("assets.jsonl", 2, "state", `"LOST"`, `"QUEUED"`)
	all[len(all)-1].column = "file"
	wrong("assets.jsonl", 2, "sha256", `"00"`, `7`)
	wrong("assets.jsonl", 2, "file", `"items.jsonl"`, `"../x"`)
	wrong("assets.jsonl", 2, "storage_key", `"uploads/x"`)
	wrong("assets.jsonl", 2, "created_at", `"never"`)
	wrong("samples.jsonl", 1, "seed", `"7"`, `1.5`)
	wrong("samples.jsonl", 1, "runs", `[]`, `null`, listOf(1001, `{}`))
	wrong("samples.jsonl", 1, "more", `1`)
	all = append(all, wrongValue{file: "samples.jsonl", line: 1, path: "runs.0.question_id", value: `"q9"`,
		column: "question_id"})
	return all
}

// Every value of an archive is checked before it is stored: a value that no export produces is refused with its
// file and line, and nothing is stored.
func TestWrongValuesOfArchivesAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	parts := s.archived(t)
	whole := s.importArchive(t, packed(t, parts))
	require.Equal(t, http.StatusCreated, whole.StatusCode, string(whole.body))
	var imported struct {
		TaskID string `json:"task_id"`
	}
	whole.into(t, &imported)
	id := imported.TaskID
	var before int
	require.NoError(t, s.tables.Get(&before, `SELECT count(*) FROM evaluation_tasks`))
	files := s.storedFiles(t)
	for _, one := range wrongValues() {
		name := fmt.Sprintf("%s line %d: %s %.60s", one.file, one.line, one.path, one.value)
		changed := maps.Clone(parts)
		if one.line == 0 {
			changed[one.file] = altered(t, parts[one.file], one.path, one.value)
		} else {
			lines := strings.SplitAfter(parts[one.file], "\n")
			lines[one.line-1] = altered(t, lines[one.line-1], one.path, one.value)
			changed[one.file] = strings.Join(lines, "")
		}
		answer := s.importArchive(t, packed(t, changed))
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, "%s: %.300s", name, answer.body)
		var refused struct {
			Code, Message string
			Details       []struct {
				Row             int
				Column, Message string
			}
		}
		answer.into(t, &refused)
		require.Equal(t, "ARCHIVE_INVALID", refused.Code, name)
		require.Contains(t, refused.Message, one.file, name)
		require.Len(t, refused.Details, 1, name)
		require.Equal(t, refused.Message, refused.Details[0].Message)
		require.Regexp(t, `^`+regexp.QuoteMeta(one.member())+`($|[.\[])`, refused.Details[0].Column, name)
		if one.line > 0 {
			require.Equal(t, one.line, refused.Details[0].Row, name)
		} else {
			require.Positive(t, refused.Details[0].Row, name)
		}
		require.Less(t, len(answer.body), 2000, name)
	}
	var after int
	require.NoError(t, s.tables.Get(&after, `SELECT count(*) FROM evaluation_tasks`))
	require.Equal(t, before, after)
	require.ElementsMatch(t, files, s.storedFiles(t), "no file of a refused archive stays")
	for _, path := range []string{"/tasks", "/tasks/" + id, "/tasks/" + id + "/results", "/tasks/" + id + "/report",
		api + "/" + id + "/statistics"} {
		require.Equal(t, http.StatusOK, s.get(t, path).StatusCode, path)
	}
	require.Zero(t, s.reports.Load(), s.told.String())
}

// Files that are missing, damaged, too large or of the wrong kind are also refused, with the name of the faulty file.
func TestArchivesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	parts := s.archived(t)
	lineOf := func(name string, number int) string { return strings.SplitAfter(parts[name], "\n")[number-1] }
	question := func(id, text string) string {
		return fmt.Sprintf(`{"question_id":%q,"question":%q,"standard_answer":"","variables":["","",""]}`+"\n", id, text)
	}
	many := func(n, size int) string {
		var all strings.Builder
		for place := range n {
			all.WriteString(question(strconv.Itoa(place), strings.Repeat("a", size)))
		}
		return all.String()
	}
	whole := packed(t, parts)
	damaged := bytes.Clone(whole)
	damaged[bytes.Index(damaged, []byte("runs.jsonl"))+60] ^= 0xff
	for name, one := range map[string]struct {
		content []byte
		file    string
		text    string
		// says is a text that the message must contain.
		says []string
	}{
		"text":        {content: []byte("no archive")},
		"empty":       {content: []byte{}},
		"half":        {content: whole[:len(whole)/2]},
		"damaged":     {content: damaged, says: []string{"runs.jsonl"}},
		"no manifest": {file: "manifest.json", says: []string{"manifest.json"}},
		"another format": {file: "manifest.json", text: `{"kind":"wending-task","format":99}`,
			says: []string{"manifest.json", "99"}},
		"another kind": {file: "manifest.json", text: `{"kind":"cake","format":1}`,
			says: []string{"manifest.json", "cake"}},
		"a manifest more": {file: "manifest.json", text: `{"kind":"wending-task","format":1,"more":1}`,
			says: []string{"manifest.json", "第 1 行", "more"}},
		"no task":      {file: "task.json", says: []string{"task.json"}},
		"a task twice": {file: "another task.json", text: parts["task.json"], says: []string{"task.json"}},
		"a list":       {file: "task.json", text: "[]", says: []string{"task.json", "第 1 行"}},
		"half a task":  {file: "task.json", text: parts["task.json"][:200], says: []string{"task.json"}},
		"two tasks":    {file: "task.json", text: parts["task.json"] + parts["task.json"], says: []string{"task.json"}},
		"a long task":  {file: "task.json", text: strings.Repeat(" ", 33<<20), says: []string{"task.json", "32 MB"}},
		"no items":     {file: "items.jsonl", says: []string{"items.jsonl"}},
		"no questions": {file: "items.jsonl", text: "\n", says: []string{"items.jsonl", "第 1 行"}},
		"half a question": {file: "items.jsonl", text: lineOf("items.jsonl", 1) + lineOf("items.jsonl", 2)[:20],
			says: []string{"items.jsonl", "第 2 行"}},
		"two in a line": {file: "items.jsonl",
			text: strings.TrimSpace(lineOf("items.jsonl", 1)) + lineOf("items.jsonl", 3),
			says: []string{"items.jsonl", "第 1 行"}},
		"a number":        {file: "items.jsonl", text: "7\n", says: []string{"items.jsonl", "第 1 行"}},
		"brackets":        {file: "items.jsonl", text: strings.Repeat("[", 1<<20), says: []string{"items.jsonl", "第 1 行"}},
		"1,001 questions": {file: "items.jsonl", text: many(1001, 1), says: []string{"items.jsonl", "第 1001 行", "1,000"}},
		"33 MB of text":   {file: "items.jsonl", text: many(33, 1<<20), says: []string{"items.jsonl", "32 MB"}},
		"a line of 17 MB": {file: "items.jsonl", text: parts["items.jsonl"] + many(1, 17<<20),
			says: []string{"items.jsonl", "第 6 行", "16 MB"}},
		"130 MB of members": {file: "items.jsonl",
			text: strings.Repeat(strings.TrimSuffix(question("q", "a"), "}\n")+strings.Repeat(" ", 15<<20)+"}\n", 9),
			says: []string{"items.jsonl"}},
		"no runs": {file: "runs.jsonl", says: []string{"runs.jsonl"}},
		"a run twice": {file: "runs.jsonl", text: parts["runs.jsonl"] + lineOf("runs.jsonl", 1),
			says: []string{"runs.jsonl", "第 11 行", "run_index"}},
		"no JSON": {file: "runs.jsonl", text: "[" + parts["runs.jsonl"], says: []string{"runs.jsonl", "第 1 行"}},
		"a run of 25 MB": {file: "runs.jsonl",
			text: lineOf("runs.jsonl", 1) + `{"reasoning":"` + strings.Repeat("a", 25<<20),
			says: []string{"runs.jsonl", "第 2 行", "24 MB"}},
		"empty evaluations": {file: "runs.jsonl", text: `{"evaluations":[` + strings.Repeat("{},", 5<<20) + `{}]}`,
			says: []string{"runs.jsonl", "第 1 行", "evaluations"}},
	} {
		if one.content == nil {
			changed := maps.Clone(parts)
			if changed[one.file] = one.text; one.text == "" {
				delete(changed, one.file)
			}
			one.content = packed(t, changed)
		}
		answer := s.importArchive(t, one.content)
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, "%s: %.300s", name, answer.body)
		require.Contains(t, string(answer.body), "ARCHIVE_INVALID", name)
		for _, part := range one.says {
			require.Contains(t, string(answer.body), part, name)
		}
	}
	var tasks int
	require.NoError(t, s.tables.Get(&tasks, `SELECT count(*) FROM evaluation_tasks`))
	require.Equal(t, 1, tasks)

	// A page also shows the error, in the reader's language.
	changed := maps.Clone(parts)
	changed["runs.jsonl"] = altered(t, lineOf("runs.jsonl", 1), "score", "7")
	for lang, message := range map[string]string{"zh-CN": "runs.jsonl 第 1 行的 score 应为：0 到 1 的数",
		"en": "runs.jsonl, line 1, score: expected a number from 0 to 1"} {
		page := s.importForm(t, "/tasks/import", packed(t, changed), &http.Cookie{Name: "lang", Value: lang})
		require.Equal(t, http.StatusUnprocessableEntity, page.StatusCode)
		require.Contains(t, string(page.body), message)
	}
	require.Zero(t, s.reports.Load(), s.told.String())
}

// An imported task is exported as exactly the archive it came from, even in another installation: pictures, previews,
// the replay, people's groupings and samples are all restored.
func TestArchivesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	s, other := newSite(t, true), newSite(t, true)
	parts := s.archived(t)
	for _, name := range []string{"events.jsonl", "tools.jsonl", "assets.jsonl", "samples.jsonl", "dataset.csv",
		"files/1/variant_1_run_1/一/图.png"} {
		require.NotEmpty(t, parts[name], name)
	}
	require.Contains(t, parts["runs.jsonl"], `"response_bytes":"YQBi"`)
	require.Contains(t, parts["runs.jsonl"], `"ratings" : {"`)
	require.Contains(t, parts["runs.jsonl"], `"is_default" : true`)
	require.Contains(t, parts["items.jsonl"], `"turn":2`)
	require.Contains(t, parts["items.jsonl"], `"reviewer":"李雷"`)
	for name, site := range map[string]*site{"the same installation": s, "another installation": other} {
		answer := site.importArchive(t, packed(t, parts))
		require.Equal(t, http.StatusCreated, answer.StatusCode, string(answer.body))
		var created struct {
			TaskID string `json:"task_id"`
		}
		answer.into(t, &created)
		again := site.partsOf(t, created.TaskID)
		for _, part := range slices.Sorted(maps.Keys(parts)) {
			if part != "manifest.json" {
				require.Equal(t, timeless(parts[part]), timeless(again[part]), "%s: %s", name, part)
			}
		}
		statistics := site.entry(t, "GET", "evaluation-tasks/"+created.TaskID, nil, 200)["statistics"].(object)
		require.NotNil(t, statistics["agreement"], "complete at once")

		assets := site.assetsOf(t, created.TaskID, "question_id=q1")
		require.Len(t, assets, 4)
		file := site.get(t, assets[0].URL)
		require.Equal(t, parts["files/1/variant_1_run_1/一/图.png"], string(file.body))
		require.Equal(t, "image/png", file.Header.Get("Content-Type"))
		require.Equal(t, http.StatusOK, site.get(t, assets[0].URL+"/thumbnail").StatusCode)
		require.Equal(t, "FAILED", assets[1].State)
		var events struct {
			Items []struct {
				Type string
				Data struct {
					AssetID string `json:"asset_id"`
				}
			}
			Tools []struct{ Tool, Status string } `json:"tool_executions"`
		}
		site.get(t, fmt.Sprintf("%s/%s/runs/%d/events", api, created.TaskID, assets[0].RunID)).into(t, &events)
		require.Equal(t, "task_started", events.Items[0].Type)
		require.Equal(t, "task_completed", events.Items[len(events.Items)-1].Type)
		require.Len(t, events.Tools, 1)
		for _, one := range events.Items {
			if one.Type == "image_preview" {
				url := strings.TrimSuffix(assets[0].URL, assets[0].ID) + one.Data.AssetID
				require.Equal(t, "image/png", site.get(t, url).Header.Get("Content-Type"), "the preview's copy")
			}
		}
		page := site.get(t, "/tasks/"+created.TaskID+"/replay/1").page(t)
		require.Positive(t, page.Find("img").Length())
		require.Equal(t, http.StatusOK, site.get(t, "/tasks/"+created.TaskID+"/gallery").StatusCode)
	}
	require.Zero(t, s.reports.Load(), s.told.String())
	require.Zero(t, other.reports.Load(), other.told.String())
}

// timeless returns a part with its times in one notation, and without the ids that an installation gives its files.
func timeless(part string) string {
	part = strings.ReplaceAll(part, "+00:00", "Z")
	return ofInstallation.ReplaceAllString(part, `"$1":"…"`)
}

var ofInstallation = regexp.MustCompile(`"(asset_id|id)":"[0-9a-f]{8}-[-0-9a-f]{27}"`)

// An archive of the older format has no hashes. The parts that this format has are imported unchanged; all other parts
// are ignored.
func TestOlderArchivesAreStillRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	parts := s.archived(t)
	parts["manifest.json"] = `{"kind":"wending-task","format":1,"version":"1","exported_at":"2026-01-01T00:00:00Z"}`
	parts["assets.jsonl"] = `{"question_id":"q1","variant":1,"run_index":1,"path":"a.png","type":"image"}`
	parts["report.csv"] = "a"
	answer := s.importArchive(t, packed(t, parts))
	require.Equal(t, http.StatusCreated, answer.StatusCode, string(answer.body))
	var created struct {
		TaskID string `json:"task_id"`
	}
	answer.into(t, &created)
	again := s.partsOf(t, created.TaskID)
	require.Equal(t, timeless(parts["runs.jsonl"]), timeless(again["runs.jsonl"]))
	require.NotContains(t, again, "events.jsonl")
	require.NotContains(t, again, "assets.jsonl")
	parts["runs.jsonl"] = altered(t, strings.SplitAfter(parts["runs.jsonl"], "\n")[0], "score", "7")
	require.Equal(t, http.StatusUnprocessableEntity, s.importArchive(t, packed(t, parts)).StatusCode)
}

// A part that was changed, added, removed or renamed since the archive was written is refused, and so are files that do
// not match the list of files. Nothing of such an archive is stored.
func TestArchivesMustMatchTheirManifest(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	parts := hashed(t, s.archived(t))
	picture := "files/1/variant_1_run_1/一/图.png"
	files := s.storedFiles(t)
	with := func(changes map[string]string) map[string]string {
		changed := maps.Clone(parts)
		for name, text := range changes {
			if changed[name] = text; text == "" {
				delete(changed, name)
			}
		}
		return changed
	}
	for name, one := range map[string]struct {
		content []byte
		says    string
	}{
		"other runs":         {zipped(t, with(map[string]string{"runs.jsonl": parts["runs.jsonl"] + "\n"})), "runs.jsonl"},
		"another picture":    {zipped(t, with(map[string]string{picture: parts[picture] + "x"})), "图.png"},
		"no picture":         {zipped(t, with(map[string]string{picture: ""})), "图.png"},
		"no events":          {zipped(t, with(map[string]string{"events.jsonl": ""})), "events.jsonl"},
		"a part more":        {zipped(t, with(map[string]string{"notes.txt": "a"})), "notes.txt"},
		"a file more":        {zipped(t, with(map[string]string{"files/x.png": "a"})), "files/x.png"},
		"an unknown part":    {packed(t, with(map[string]string{"notes.txt": "a"})), "notes.txt"},
		"an unknown dataset": {packed(t, with(map[string]string{"dataset.exe": "a"})), "dataset.exe"},
		"an unlisted file":   {packed(t, with(map[string]string{"files/x.png": "a"})), "files/x.png"},
		"a page as picture":  {packed(t, with(map[string]string{picture: "<!DOCTYPE html><script>"})), "assets.jsonl"},
		"an empty picture":   {packed(t, with(map[string]string{picture: "\x00"})), "assets.jsonl"},
		"a large picture": {packed(t, with(map[string]string{picture: parts[picture] + strings.Repeat("\x00", maxAsset)})),
			"assets.jsonl"},
		"hashes of format 1": {zipped(t, with(map[string]string{"manifest.json": `{"kind":"wending-task","format":1,` +
			`"parts":{"task.json":"00"}}`})), "manifest.json"},
		"no hashes":        {zipped(t, with(map[string]string{"manifest.json": `{"kind":"wending-task","format":2}`})), "json"},
		"50,001 hashes":    {zipped(t, with(map[string]string{"manifest.json": manyParts(50_001)})), "50,000"},
		"a hash twice":     {zipped(t, with(map[string]string{"manifest.json": `{"parts":{"a":"1","a":"2"}}`})), "manifest.json"},
		"events of no run": {packed(t, with(map[string]string{"runs.jsonl": "\n"})), "runs.jsonl"},
		"events out of turn": {packed(t, with(map[string]string{
			"events.jsonl": parts["events.jsonl"] + parts["events.jsonl"]})), "events.jsonl"},
		"a dataset of 6 MB": {packed(t, with(map[string]string{"dataset.csv": strings.Repeat("a", 6<<20)})), "dataset.csv"},
		"no dataset":        {packed(t, with(map[string]string{"dataset.csv": ""})), "dataset.csv"},
	} {
		answer := s.importArchive(t, one.content)
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, "%s: %.300s", name, answer.body)
		require.Contains(t, string(answer.body), "ARCHIVE_INVALID", name)
		require.Contains(t, string(answer.body), one.says, name)
	}
	var tasks int
	require.NoError(t, s.tables.Get(&tasks, `SELECT count(*) FROM evaluation_tasks`))
	require.Equal(t, 1, tasks)
	require.ElementsMatch(t, files, s.storedFiles(t))
	require.Zero(t, s.reports.Load(), s.told.String())
}

func manyParts(n int) string {
	var all strings.Builder
	all.WriteString(`{"kind":"wending-task","format":2,"parts":{"a":"b"`)
	for place := range n {
		fmt.Fprintf(&all, `,"files/%d":"00"`, place)
	}
	return all.String() + "}}"
}

// Imports count as uploads, and are refused if their unpacked content does not fit into the disk quota.
func TestImportsKeepToQuotas(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	content := packed(t, s.archived(t))
	used := func() (bytes int64) {
		require.NoError(t, s.tables.Get(&bytes, `SELECT used_bytes FROM projects`))
		return bytes
	}
	before := used()
	require.Equal(t, http.StatusCreated, s.importArchive(t, content).StatusCode)
	size := used() - before
	require.Positive(t, size, "what is imported counts before it is measured")
	s.tables.MustExec(`UPDATE projects SET disk_bytes = used_bytes + $1`, size-1)
	refused := s.importArchive(t, content)
	require.Equal(t, http.StatusTooManyRequests, refused.StatusCode, string(refused.body))
	require.Contains(t, string(refused.body), "QUOTA_EXCEEDED")
	s.tables.MustExec(`UPDATE projects SET disk_bytes = used_bytes + $1`, size)
	require.Equal(t, http.StatusCreated, s.importArchive(t, content).StatusCode)

	var uploads int
	require.NoError(t, s.tables.Get(&uploads, `SELECT sum(uploads) FROM project_uploads`))
	s.tables.MustExec(`UPDATE projects SET disk_bytes = NULL, uploads_per_day = $1`, uploads+1)
	require.Equal(t, http.StatusUnprocessableEntity, s.importArchive(t, []byte("no archive")).StatusCode)
	require.Equal(t, http.StatusTooManyRequests, s.importArchive(t, content).StatusCode)
	require.Equal(t, http.StatusTooManyRequests, s.importForm(t, "/tasks/import", content).StatusCode)
}

// Imports have their own slots: slow imports do not block uploads, and release their slots when their clients
// disconnect.
func TestImportsHaveTheirOwnPlaces(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	content := packed(t, s.archived(t))
	var slow sync.WaitGroup
	var bodies []*io.PipeWriter
	for range 2 {
		body, write := io.Pipe()
		slow.Go(func() {
			answer, err := http.Post(s.URL+api+"/import", "application/zip", body)
			if err == nil {
				_ = answer.Body.Close()
			}
		})
		_, err := write.Write(content[:100])
		require.NoError(t, err)
		bodies = append(bodies, write)
	}
	dbtest.Await(t, 20*time.Second, "both places are taken", func() bool {
		answer := s.importArchive(t, content)
		return answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != ""
	})
	s.create(t, "http://127.0.0.1:9/", map[string]string{"start": "false"})
	for _, body := range bodies {
		_ = body.CloseWithError(context.Canceled) // the connection breaks
	}
	slow.Wait()
	dbtest.Await(t, 20*time.Second, "a place is free", func() bool {
		return s.importArchive(t, content).StatusCode == http.StatusCreated
	})
	require.Zero(t, s.reports.Load(), s.told.String())
}
