package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
)

// archiveHeader is the header of a task whose questions are asked 20 times.
const archiveHeader = `{"name":"archive","status":"SUCCEEDED","runs_per_item":20,"timeout_seconds":30,"max_retries":0,"use_stream":true,"concurrency":1,
	"on_turn_failure":"stop","max_cost":null,"dataset_name":"q.csv","dataset_extension":"csv",
	"question_column":"","answer_column":"","variable_names":[],
	"targets":[{"number":1,"kind":"url","name":"","protocol":"default","url":"http://127.0.0.1:9/","model":null,
		"rate_limit":"1/s","retry_on":["timeout"],"input_price":null,"output_price":null,"currency":null}],
	"variants":[{"number":1,"target":1,"name":"","system":null,"user":null}],"evaluators":[]}`

const archiveItem = `{"question_id":"q","question":"q","standard_answer":"a","system_prompt":null,"user_context":null,"series":null,"turn":null,"variables":[]}` + "\n"

// archive returns an archive whose items and runs are written by the given functions.
func (s *siege) archive(items, runs func(w io.Writer)) []byte {
	s.t.Helper()
	var packed bytes.Buffer
	files := zip.NewWriter(&packed)
	files.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestSpeed)
	})
	for _, part := range []struct {
		name  string
		write func(io.Writer)
	}{
		{"manifest.json", func(w io.Writer) { _, _ = io.WriteString(w, `{"kind":"wending-task","format":1}`) }},
		{"task.json", func(w io.Writer) { _, _ = io.WriteString(w, archiveHeader) }},
		{"items.jsonl", items},
		{"runs.jsonl", runs},
	} {
		file, err := files.Create(part.name)
		require.NoError(s.t, err)
		part.write(file)
	}
	require.NoError(s.t, files.Close())
	return packed.Bytes()
}

func oneItem(w io.Writer) { _, _ = io.WriteString(w, archiveItem) }

// archiveRuns returns a function that writes n runs of one question, each with an additional member that member writes.
func archiveRuns(n int, member func(w io.Writer)) func(io.Writer) {
	return func(w io.Writer) {
		for run := range n {
			_, _ = fmt.Fprintf(w, `{"question_id":"q","variant":1,"run_index":%d,"status":"SUCCEEDED","response_body":"a",`,
				run+1)
			member(w)
			_, _ = io.WriteString(w, "}\n")
		}
	}
}

// zerosOf returns a function that writes a member whose value is a text of n zeros.
func zerosOf(name string, n int) func(io.Writer) {
	return func(w io.Writer) {
		_, _ = fmt.Fprintf(w, `%q:"`, name)
		_, _ = io.CopyN(w, zeros{}, int64(n))
		_, _ = io.WriteString(w, `"`)
	}
}

// importArchive imports an archive and returns the status, with the error code if it was refused.
func (s *siege) importArchive(ctx context.Context, content []byte) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/api/v1/evaluation-tasks/import",
		bytes.NewReader(content))
	if err != nil {
		return err.Error()
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "left"
	}
	defer answer.Body.Close()
	var refused struct{ Code string }
	_ = json.NewDecoder(answer.Body).Decode(&refused)
	return strings.TrimSpace(strconv.Itoa(answer.StatusCode) + " " + refused.Code)
}

// archives imports small files that unpack to large ones, and numbers of 40,000 digits.
func (s *siege) archives() {
	many := s.of(60, 2)
	for _, one := range []struct {
		name    string
		content []byte
		want    string
	}{
		{fmt.Sprintf("archive: %d questions of 60 MB", many), s.archive(func(w io.Writer) {
			for range many {
				_, _ = io.WriteString(w, "{")
				zerosOf("question", 60<<20)(w)
				_, _ = io.WriteString(w, "}\n")
			}
		}, func(io.Writer) {}), "422 ARCHIVE_INVALID"},
		{fmt.Sprintf("archive: one question again and again, %d MB", 8*many), s.archive(func(w io.Writer) {
			_, _ = io.WriteString(w, strings.Repeat(archiveItem, 8*many<<20/len(archiveItem)))
		}, func(io.Writer) {}), "422 ARCHIVE_INVALID"},
		{"archive: 12 runs of 60 MB", s.archive(oneItem, archiveRuns(12, zerosOf("reasoning", 60<<20))),
			"422 ARCHIVE_INVALID"},
		{"archive: a run of 20 MB of empty evaluations", s.archive(oneItem, archiveRuns(1, func(w io.Writer) {
			_, _ = io.WriteString(w, `"evaluations":[`+strings.Repeat("{},", 7<<20)+`{}]`)
		})), "422 ARCHIVE_INVALID"},
		{"archive: a header of blanks without end", func() []byte {
			var packed bytes.Buffer
			files := zip.NewWriter(&packed)
			file, err := files.Create("manifest.json")
			require.NoError(s.t, err)
			_, _ = io.CopyN(file, blanks{}, int64(s.of(1<<30, 64<<20)))
			require.NoError(s.t, files.Close())
			return packed.Bytes()
		}(), "422 ARCHIVE_INVALID"},
		{"a good archive: 8 runs with 8 MiB of answer and of reasoning", s.archive(oneItem, func(w io.Writer) {
			for run := range 8 {
				_, _ = fmt.Fprintf(w, `{"question_id":"q","variant":1,"run_index":%d,"status":"SUCCEEDED",`, run+1)
				zerosOf("response_body", 8<<20)(w)
				_, _ = io.WriteString(w, ",")
				zerosOf("reasoning", 8<<20)(w)
				_, _ = io.WriteString(w, "}\n")
			}
		}), "201"},
	} {
		s.attack(fmt.Sprintf("%s, %d KB", one.name, len(one.content)>>10), toOneClient, func() string {
			answer := s.importArchive(s.t.Context(), one.content)
			require.Equal(s.t, one.want, answer, "%s: %s", one.name, s.log)
			return answer
		})
	}
	digits := strings.Repeat("7", 40_000)
	long := s.archive(oneItem, archiveRuns(1, func(w io.Writer) { _, _ = io.WriteString(w, `"latency_ms":"`+digits+`"`) }))
	s.attack("12 archives at once, with numbers of 40,000 digits", toACrowd, func() string {
		return together(12, func(int) string { return s.importArchive(s.t.Context(), long) })
	})
	s.leavers()
}

// leavers has clients disconnect while their archives are read.
func (s *siege) leavers() {
	large := s.archive(oneItem, archiveRuns(20, zerosOf("reasoning", 8<<20)))
	s.attack(fmt.Sprintf("two imports whose clients leave, %d KB", len(large)>>10), toACrowd, func() string {
		ctx, leave := context.WithTimeout(s.t.Context(), 500*time.Millisecond)
		defer leave()
		answers := make(chan string, 2)
		for range cap(answers) {
			go func() { answers <- s.importArchive(ctx, large) }()
		}
		require.Equal(s.t, "201", s.upload("q.csv", twenty), "an ordinary upload in the meantime")
		for range cap(answers) {
			<-answers
		}
		start := time.Now()
		good := s.archive(oneItem, archiveRuns(1, zerosOf("reasoning", 1)))
		dbtest.Await(s.t, time.Minute, "a place for an import", func() bool {
			return s.importArchive(s.t.Context(), good) == "201"
		})
		return fmt.Sprintf("the next import after %.1f s", time.Since(start).Seconds())
	})
}

type blanks struct{}

func (blanks) Read(b []byte) (int, error) {
	for n := range b {
		b[n] = ' '
	}
	return len(b), nil
}
