package answers_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/answers"
	"wending/jobs/dataset"
)

func layout() answers.Layout { return answers.Layout{MaxRuns: 20, MaxVariants: 20} }

func read(t *testing.T, content string) *answers.File {
	t.Helper()
	file, err := answers.Read(context.Background(), []byte(content), layout())
	require.NoError(t, err)
	return file
}

// stored returns a file of testdata.
func stored(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(content)
}

// refused requires that a file is refused with a code, and returns the error.
func refused(t *testing.T, code, content string) *dataset.Error {
	t.Helper()
	_, err := answers.Read(context.Background(), []byte(content), layout())
	var wrong *dataset.Error
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, code, wrong.Code, "%v", wrong)
	return wrong
}

// said returns the answers of an item, in order.
func said(item answers.Item) (texts []string) {
	for _, run := range item.Runs {
		text := string(run.Status)
		if run.Answer != nil {
			text = *run.Answer
		}
		texts = append(texts, fmt.Sprintf("%d.%d %s", run.Variant, run.Index, text))
	}
	return texts
}

// Prompts are told apart by their numbers and their whole labels, even if their names are equal once shortened, and
// even if the file does not list them.
func TestPromptsOfPromptfooAreToldApart(t *testing.T) {
	t.Parallel()
	for _, prompts := range []string{"", `[{"label": "a"}, {"label": "b"}]`} {
		var results []string
		for idx, label := range []string{strings.Repeat("长", 90) + "甲", strings.Repeat("长", 90) + "乙"} {
			for range 2 {
				results = append(results, fmt.Sprintf(`{"promptIdx": %d, "prompt": {"raw": "r", "label": %q}, "provider": "p",
					"vars": {"question": "q"}, "response": {"output": "a%d"}}`, idx, label, idx))
			}
		}
		content := `{"evalId": "e", "results": {"results": [` + strings.Join(results, ",") + `]`
		if prompts != "" {
			content += `, "prompts": ` + prompts
		}
		file := read(t, content+`}}`)
		require.Len(t, file.Variants, 2)
		require.NotEqual(t, file.Variants[0].Name, file.Variants[1].Name)
		require.True(t, strings.HasPrefix(file.Variants[0].Name, "长长"), file.Variants[0].Name)
		require.Len(t, file.Items, 1)
		require.Len(t, file.Items[0].Runs, 4)
	}
}

// Results that promptfoo itself wrote are read: each test is a question, each prompt with a provider is a variant, and
// each repeat is a run. A failed assertion is not a failed run.
func TestResultsOfPromptfooAreRead(t *testing.T) {
	t.Parallel()
	file := read(t, stored(t, "promptfoo.json"))
	require.Equal(t, answers.Promptfoo, file.Format)
	names := make([]string, len(file.Variants))
	for n, variant := range file.Variants {
		names[n] = variant.Name
	}
	require.ElementsMatch(t, []string{"{{question}} × a", "请简短回答：{{question}} × a", "{{question}} × b",
		"请简短回答：{{question}} × b"}, names)
	require.Len(t, file.Items, 2)
	first := file.Items[0]
	require.Equal(t, "退货期限是多久？", first.Question)
	require.Equal(t, "退货期限为 14 日。", first.StandardAnswer)
	require.Equal(t, []string{"region"}, file.VariableNames)
	require.Equal(t, []string{"上海"}, first.Variables)
	require.Len(t, first.Runs, 8)
	counts := map[string]int{}
	for _, run := range first.Runs {
		require.Equal(t, answers.Succeeded, run.Status)
		require.Contains(t, *run.Answer, "日。\n第二行 \"引号\"")
		require.Equal(t, 21, *run.TotalTokens)
		require.Equal(t, "0.000123", *run.Cost)
		counts[fmt.Sprint(run.Variant, run.Index)]++
	}
	require.Len(t, counts, 8)
	for _, run := range file.Items[1].Runs {
		require.Equal(t, answers.Failed, run.Status)
		require.Equal(t, "the agent is not available", run.ErrorMessage)
		require.Nil(t, run.Answer)
	}
}

const inspectHead = `{"version": 2, "status": "success", "eval": {"task": "t", "model": "mock/model", "created": "2026-11-26"}`

// sample returns an epoch of a question in the format of Inspect's logs.
func sample(id string, epoch int, answer string) string {
	return fmt.Sprintf(`{"id": %s, "epoch": %d, "input": [{"role": "system", "content": "Be brief."},
		{"role": "user", "content": [{"type": "text", "text": "问题 %s"}]}], "target": ["A", "B"], "messages": [],
		"output": {"model": "m", "choices": [{"message": {"role": "assistant", "content": [
			{"type": "reasoning", "reasoning": "想"}, {"type": "text", "text": %q}]}, "stop_reason": "max_tokens"}],
			"usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}, "time": 1.2345},
		"scores": {"match": {"value": NaN}}, "metadata": {"topic": "x", "level": 2},
		"completed_at": "2026-11-26T10:00:00+08:00"}`, id, epoch, id, answer)
}

// archive returns a ZIP file with members given by name and content.
func archive(t *testing.T, members ...string) string {
	t.Helper()
	var content bytes.Buffer
	files := zip.NewWriter(&content)
	for n := 0; n+1 < len(members); n += 2 {
		file, err := files.Create(members[n])
		require.NoError(t, err)
		_, err = file.Write([]byte(members[n+1]))
		require.NoError(t, err)
	}
	require.NoError(t, files.Close())
	return content.String()
}

// Logs of Inspect are read in both forms: a sample id is a question, an epoch a run.
func TestLogsOfInspectAreRead(t *testing.T) {
	t.Parallel()
	failed := `{"id": "b", "epoch": 2, "input": "问题 \"b\"", "target": "A", "error": {"message": "RuntimeError()"},
		"output": {"model": "m", "choices": []}}`
	all := []string{sample("1", 1, "甲"), sample("1", 2, "乙"), sample(`"b"`, 1, "丙"), failed}
	zipped := archive(t, "_journal/start.json", "{}", "header.json", inspectHead+"}", "samples/1_epoch_1.json", all[0],
		"samples/1_epoch_2.json", all[1], "samples/b_epoch_1.json", strings.ReplaceAll(all[2], `问题 "b"`, `问题 \"b\"`),
		"samples/b_epoch_2.json", all[3], "summaries.json", "[]", "reductions.json", "[]")
	plain := inspectHead + `, "samples": [` + strings.ReplaceAll(strings.Join(all, ","), `问题 "b"`, `问题 \"b\"`) + `]}`
	for name, content := range map[string]string{"eval": zipped, "json": plain} {
		file := read(t, content)
		require.Equal(t, answers.Inspect, file.Format, name)
		require.Equal(t, []answers.Variant{{Name: "mock/model", Model: "mock/model"}}, file.Variants, name)
		require.Len(t, file.Items, 2, name)
		first := file.Items[0]
		require.Equal(t, "1", first.QuestionID)
		require.Equal(t, "问题 1", first.Question)
		require.Equal(t, "A\nB", first.StandardAnswer)
		require.Equal(t, "Be brief.", *first.SystemPrompt)
		require.Equal(t, []string{"topic", "level"}, file.VariableNames)
		require.Equal(t, []string{"x", "2"}, first.Variables)
		require.Equal(t, []string{"1.1 甲", "1.2 乙"}, said(first))
		run := first.Runs[0]
		require.Equal(t, "想", *run.Reasoning)
		require.Equal(t, "length", run.FinishReason)
		require.Equal(t, 1235, *run.LatencyMS)
		require.Equal(t, []int{3, 4, 7}, []int{*run.InputTokens, *run.OutputTokens, *run.TotalTokens})
		second := file.Items[1]
		require.Equal(t, []string{"1.1 丙", "1.2 FAILED"}, said(second))
		require.Equal(t, "RuntimeError()", second.Runs[1].ErrorMessage)
	}
}

// Logs of OpenAI Evals are read, and so are output items of the hosted service.
func TestLogsOfOpenAIEvalsAreRead(t *testing.T) {
	t.Parallel()
	file := read(t, stored(t, "oaieval.jsonl"))
	require.Equal(t, answers.OpenAIEvals, file.Format)
	require.Equal(t, "gpt-4", file.Variants[0].Name)
	require.Len(t, file.Items, 2)
	require.Equal(t, "OpenAI was founded in 20", file.Items[0].Question)
	require.Equal(t, "15", file.Items[0].StandardAnswer)
	require.Equal(t, []string{"1.1 15", "1.2 2015"}, said(file.Items[0]))
	require.Equal(t, "2023-04-17T22:10:13Z", file.Items[0].Runs[0].CompletedAt.UTC().Format("2006-01-02T15:04:05Z"))

	file = read(t, stored(t, "output_items.jsonl"))
	require.Equal(t, answers.OpenAIEvals, file.Format)
	require.Equal(t, "A", file.Items[0].StandardAnswer)
	require.Equal(t, []string{"1.1 A"}, said(file.Items[0]))
	require.Equal(t, 9, *file.Items[0].Runs[0].TotalTokens)
	require.Equal(t, []string{"1.1 FAILED"}, said(file.Items[1]))
	require.Equal(t, "busy", file.Items[1].Runs[0].ErrorMessage)
}

// Tables are read with a row for each run or for each question, without ids, and with several variants.
func TestTablesAreRead(t *testing.T) {
	t.Parallel()
	file := read(t, "question,answer,variant,城市\n甲,1,new,x\n甲,2,old,x\n甲,3,new,x\n乙,,old,y\n")
	require.Equal(t, []string{"1.1 1", "1.2 3", "2.1 2"}, said(file.Items[0]))
	require.Equal(t, []string{"2.1 "}, said(file.Items[1]), "an empty answer is an answer")
	require.Equal(t, []string{"城市"}, file.VariableNames)
	require.NotEmpty(t, file.Items[0].QuestionID)
	again := read(t, "question,answer,variant,城市\n甲,1,new,x\n甲,2,old,x\n甲,3,new,x\n乙,,old,y\n")
	require.Equal(t, file.Items[0].QuestionID, again.Items[0].QuestionID)

	file = read(t, "question_id,question,run_1_response_body,run_2_response_body,run_2_error_message\nq,甲,'=1,,down\nr,乙,2,,\n")
	require.Equal(t, []string{"1.1 '=1", "1.2 FAILED"}, said(file.Items[0]))
	require.Equal(t, []string{"1.1 2"}, said(file.Items[1]))

	file = read(t, `{"question": "甲", "answer": "a\u0000b", "run": 2, "tokens": 1e3}
{"question": "甲", "answer": {"x": [1, 2]}, "run": 1, "status": "TIMEOUT"}
`)
	require.Equal(t, []string{`1.1 {"x":[1,2]}`, "1.2 a\x00b"}, said(file.Items[0]))
	require.Equal(t, 1000, *file.Items[0].Runs[1].TotalTokens)
	require.Equal(t, answers.TimedOut, file.Items[0].Runs[0].Status)
	require.Equal(t, "TIMEOUT", file.Items[0].Runs[0].ErrorCode)

	mapped := layout()
	mapped.Columns = map[string]string{"question": "提问", "answer": "回复", "run": "次"}
	found, err := answers.Read(context.Background(), []byte("提问,回复,次,question\n甲,1,1,x\n甲,2,2,x\n"), mapped)
	require.NoError(t, err)
	require.Equal(t, []string{"1.1 1", "1.2 2"}, said(found.Items[0]))
	require.Equal(t, []string{"question"}, found.VariableNames)
}

// Hostile files are refused with a reason, and without exhausting time or memory.
func TestHostileFilesOfAnswersAreRefused(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	refused(t, dataset.CodeUnreadable, `{"question": "q", "answer": `+deep+"}\n")
	refused(t, dataset.CodeUnreadable, inspectHead+`, "samples": [`+deep)
	refused(t, dataset.CodeRowInvalid, `{"question": "q", "answer": "a", "tokens": 1e999}`)
	refused(t, dataset.CodeRowInvalid, `{"question": "q", "answer": "a", "latency_ms": -1}`)
	refused(t, dataset.CodeRowInvalid, `{"question": "q\u0000", "answer": "a"}`)
	refused(t, dataset.CodeRowInvalid, `{"question": "q", "answer": "a", "variant": "`+strings.Repeat("v", 300)+`"}`)
	refused(t, dataset.CodeTooComplex, `{"question": "q", "answer": "a"`+strings.Repeat(`,"x":1`, 2000)+"}")
	refused(t, dataset.CodeRowInvalid, `{"evalId": "e", "config": {}, "results": {"results": [1, "x", null]}}`)
	refused(t, dataset.CodeEmpty, `{"evalId": "e", "config": {}, "results": []}`)
	refused(t, dataset.CodeEmpty, `{"evalId": "e", "config": {}, "results": {"results": {"a": 1}}}`)
	refused(t, dataset.CodeEmpty, inspectHead+`, "samples": "none"}`)
	refused(t, dataset.CodeUnreadable, archive(t, "header.json", "{}", "samples/a.json", "{"))
	refused(t, dataset.CodeUnreadable, archive(t, "header.json", "{}", "samples/a.json", "{\"a\": \"\xff\"}"))
	refused(t, dataset.CodeFormatUnsupported, archive(t, "a.txt", "x"))
	bomb := archive(t, "header.json", inspectHead+"}", "samples/1_epoch_1.json", `"`+strings.Repeat("0", 40<<20)+`"`)
	require.Less(t, len(bomb), 1<<20)
	refused(t, dataset.CodeTooComplex, bomb)
	cut := archive(t, "header.json", inspectHead+"}", "samples/1_epoch_1.json", sample("1", 1, "x"))
	refused(t, dataset.CodeFormatUnsupported, cut[:len(cut)/2])
	rows := "question,answer\n" + strings.Repeat("q,a\n", 21)
	wrong := refused(t, dataset.CodeRowInvalid, rows)
	require.Equal(t, []dataset.RowError{{Row: 22, Column: "run", Problem: "answers_runs",
		Args: map[string]any{"Max": 20}}}, wrong.Details)
	var variants strings.Builder
	for n := range 21 {
		fmt.Fprintf(&variants, "q,a,v%d\n", n)
	}
	wrong = refused(t, dataset.CodeRowInvalid, "question,answer,variant\n"+variants.String())
	require.Equal(t, "answers_variants", wrong.Details[0].Problem)
}
