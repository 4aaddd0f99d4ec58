package main

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"wending/db/meaning"
)

// meaningsCSV has 200 questions, half in Chinese and half in English, each with four answers that people put into
// groups. A third of the questions are held out: prompts must not be tuned on them. In each language, the questions are
// made from ten templates with ten subjects each. Their answers state the same value in other words, another value in
// the same words, or no value at all.
//
//go:embed meanings.csv
var meaningsCSV string

// grouped is a labelled question.
type grouped struct {
	id, part, question string
	answers            []string
	// labels are the groups in which people put the answers, in the order of answers.
	labels []int64
}

func readGrouped(text string) (questions []grouped, err error) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, row := range rows[1:] {
		if len(questions) == 0 || questions[len(questions)-1].id != row[0] {
			questions = append(questions, grouped{id: row[0], part: row[1] + " " + row[2], question: row[3]})
		}
		label, err := strconv.ParseInt(row[4], 10, 64)
		if err != nil {
			return nil, err
		}
		one := &questions[len(questions)-1]
		one.answers, one.labels = append(one.answers, row[5]), append(one.labels, label)
	}
	return questions, nil
}

// agent is an agent that returns the labelled answers to a question, one per call.
type agent struct {
	mutex   sync.Mutex
	answers map[string][]string
	asked   map[string]int
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Question string }
	err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&asked)
	if err != nil || a.answers[asked.Question] == nil {
		http.Error(w, "unknown question", http.StatusBadRequest)
		return
	}
	a.mutex.Lock()
	answers := a.answers[asked.Question]
	answer := answers[a.asked[asked.Question]%len(answers)]
	a.asked[asked.Question]++
	a.mutex.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"output": answer}})
}

// checkMeanings has a saved model group the labelled answers in an ordinary task, and writes how far the model agrees
// with the labels, and the calls, tokens and cost. The task is kept, so that the differences can be read.
func checkMeanings(server, model string, out io.Writer) error {
	questions, err := readGrouped(meaningsCSV)
	if err != nil {
		return err
	}
	a := &agent{answers: map[string][]string{}, asked: map[string]int{}}
	var file bytes.Buffer
	rows := csv.NewWriter(&file)
	_ = rows.Write([]string{"question_id", "question", "standard_answer"})
	for _, one := range questions {
		a.answers[one.question] = one.answers
		_ = rows.Write([]string{one.id, one.question, ""})
	}
	rows.Flush()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	serving := &http.Server{Handler: a, ReadHeaderTimeout: time.Minute}
	defer serving.Close() //nolint:errcheck // nothing is left to do
	go func() { _ = serving.Serve(listener) }()
	api := client{strings.TrimSuffix(server, "/") + "/api/v1/evaluation-tasks", &http.Client{Timeout: 2 * time.Minute}}
	task, err := api.create(map[string]string{
		"task_name": "meaning-check", "agent_api_url": "http://" + listener.Addr().String() + "/run", "runs_per_item": "4",
		"rate_limit": "unlimited", "use_stream": "false", "meaning_model": model,
	}, file.Bytes())
	if err != nil {
		return err
	}
	statistics, err := api.await(task)
	if err != nil {
		return err
	}
	found, err := api.groups(task)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(out, sum(questions, found, statistics), "\nthe answers: ", strings.TrimSuffix(server, "/"),
		"/tasks/", task, "/results?by=meaning\n")
	return err
}

// groupingStatistics is the part of a task's statistics that is about its groupings.
type groupingStatistics struct {
	Calls    int     `json:"meaning_calls"`
	Errors   int     `json:"meaning_errors"`
	Tokens   int     `json:"meaning_tokens"`
	Cost     *string `json:"meaning_cost"`
	Currency *string `json:"meaning_currency"`
}

// create creates a task from a form, and returns its id.
func (c client) create(fields map[string]string, dataset []byte) (id string, err error) {
	var content bytes.Buffer
	form := multipart.NewWriter(&content)
	for name, value := range fields {
		_ = form.WriteField(name, value)
	}
	file, err := form.CreateFormFile("dataset_file", "meanings.csv")
	if err != nil {
		return "", err
	}
	_, _ = file.Write(dataset)
	_ = form.Close()
	response, err := c.http.Post(c.base, form.FormDataContentType(), &content)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("create the task: %s: %s", response.Status, answer)
	}
	if err != nil {
		return "", err
	}
	var created struct {
		TaskID string `json:"task_id"`
	}
	return created.TaskID, errors.Join(json.Unmarshal(answer, &created), err)
}

// await waits until a task has ended.
func (c client) await(task string) (statistics groupingStatistics, err error) {
	var detail struct {
		Status     string             `json:"status"`
		Statistics groupingStatistics `json:"statistics"`
	}
	for detail.Status != "SUCCEEDED" {
		if err := c.call(http.MethodGet, "/"+task, nil, &detail); err != nil {
			return statistics, err
		}
		if detail.Status == "FAILED" || detail.Status == "STOPPED" {
			return statistics, fmt.Errorf("the task has %s", strings.ToLower(detail.Status))
		}
		time.Sleep(time.Second)
	}
	return detail.Statistics, nil
}

// placed is the group of an answer.
type placed struct {
	group    int64
	isUnsure bool
}

// groups returns the group of each answer of a task, keyed by question id and answer text. Answers that the model did
// not group are left out.
func (c client) groups(task string) (map[string]map[string]placed, error) {
	all := map[string]map[string]placed{}
	for page := 1; ; page++ {
		var results struct {
			Items []struct {
				ID   string `json:"question_id"`
				Runs []struct {
					Answer *string `json:"response_body"`
				} `json:"runs"`
				Variants []struct {
					Meaning *meaning.VariantMeaning `json:"meaning"`
				} `json:"variants"`
			} `json:"items"`
		}
		path := fmt.Sprintf("/%s/results?page_size=20&page=%d", task, page)
		if err := c.call(http.MethodGet, path, nil, &results); err != nil {
			return nil, err
		}
		if len(results.Items) == 0 {
			return all, nil
		}
		for _, item := range results.Items {
			of := map[string]placed{}
			if said := item.Variants[0].Meaning; said != nil && !said.IsDefault {
				for n, runs := range said.Groups {
					for _, run := range runs {
						if answer := item.Runs[run-1].Answer; answer != nil {
							of[*answer] = placed{group: int64(n)}
						}
					}
				}
				for _, run := range said.Unsure {
					if answer := item.Runs[run-1].Answer; answer != nil {
						of[*answer] = placed{of[*answer].group, true}
					}
				}
			}
			all[item.ID] = of
		}
	}
}

// sum describes how far found agrees with the labels, for all questions and for each part of them, and what the
// grouping cost.
func sum(questions []grouped, found map[string]map[string]placed, took groupingStatistics) string {
	type part struct {
		labelled, said [][]int64
		unsure         [][]bool
	}
	parts, missing := map[string]*part{}, 0
	for _, one := range questions {
		var said []int64
		var unsure []bool
		for _, answer := range one.answers {
			if of, has := found[one.id][answer]; has {
				said, unsure = append(said, of.group), append(unsure, of.isUnsure)
			}
		}
		if len(said) < len(one.answers) {
			missing++
			continue
		}
		for _, name := range []string{"all", one.part} {
			if parts[name] == nil {
				parts[name] = &part{}
			}
			of := parts[name]
			of.labelled, of.said, of.unsure = append(of.labelled, one.labels), append(of.said, said), append(of.unsure, unsure)
		}
	}
	var text strings.Builder
	for _, name := range []string{"all", "zh own", "zh aside", "en own", "en aside"} {
		if of := parts[name]; of != nil {
			r := meaning.Score(of.labelled, of.said, of.unsure)
			fmt.Fprintf(&text, "%-9s %3d questions, %3d exactly as labelled · ", name, r.Questions, r.Unchanged)
			fmt.Fprintf(&text, "pairs: F1 %s, precision %s, recall %s, unsure %d of %d\n", figure(r.F1), figure(r.Precision),
				figure(r.Recall), r.Unsure, r.Pairs+r.Unsure)
		}
	}
	fmt.Fprintf(&text, "%d calls for %d questions (%.2f a question), %d without groups, %d tokens, cost %s\n", took.Calls,
		len(questions), float64(took.Calls)/float64(len(questions)), missing, took.Tokens, costOf(took))
	return text.String()
}

func figure(share *float64) string {
	if share == nil {
		return "–"
	}
	return strconv.FormatFloat(*share, 'f', 3, 64)
}

func costOf(took groupingStatistics) string {
	if took.Cost == nil || took.Currency == nil {
		return "unknown (the model has no prices)"
	}
	return *took.Cost + " " + *took.Currency
}
