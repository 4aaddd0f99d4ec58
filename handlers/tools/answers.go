package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"wending/views/paths"
)

// The maximum numbers of characters of texts in a result.
const (
	ofQuestion, ofFact, ofReason = 500, 200, 300 // of a question, of a fact, and of a reason or an error message
	usualText, leastText         = 2000, 100     // of an answer: by default, and at least
)

// The maximum number of facts of a question, and of pairs of a comparison, in a result.
const mostFacts, mostPairs = 5, 20

type worstInput struct {
	ofTask
	Page  int `json:"page,omitempty" jsonschema:"page number, from 1"`
	Limit int `json:"limit,omitempty" jsonschema:"questions per page, 1 to 20; default 10"`
}

type answersInput struct {
	ofTask
	QuestionID    string `json:"question_id,omitempty" jsonschema:"only the question with this id"`
	Variant       int    `json:"variant,omitempty" jsonschema:"only runs of the variant with this number"`
	Level         string `json:"level,omitempty" jsonschema:"only questions at one of these levels, comma-separated: identical, format_only, facts, wording, different, empty, unknown"`
	Page          int    `json:"page,omitempty" jsonschema:"page number, from 1"`
	PageSize      int    `json:"page_size,omitempty" jsonschema:"questions per page, 1 to 10; default 3"`
	MaxCharacters int    `json:"max_characters,omitempty" jsonschema:"characters of each answer that are shown, 100 to 20000; default 2000"`
}

type compareInput struct {
	inProject
	A string `json:"a" jsonschema:"the first task, <id> or <id>:<variant>"`
	B string `json:"b" jsonschema:"the second task, or another variant of the first"`
}

// fact is a fact on which answers differ, as the API returns it.
type fact struct {
	Label  string `json:"label"`
	Values []struct {
		Side string `json:"side"`
		Text string `json:"text"`
		Runs []int  `json:"runs"`
	} `json:"values"`
	Missing []int `json:"missing"`
}

// String returns the fact in one line, with the runs that state each value.
func (f fact) String() string {
	var said []string
	for _, value := range f.Values {
		where := "runs " + strings.Trim(fmt.Sprint(value.Runs), "[]")
		if value.Side != "" {
			where = value.Side
		}
		said = append(said, fmt.Sprintf("%s (%s)", value.Text, where))
	}
	if len(f.Missing) > 0 {
		said = append(said, "not stated (runs "+strings.Trim(fmt.Sprint(f.Missing), "[]")+")")
	}
	return f.Label + ": " + strings.Join(said, " | ")
}

// likeness says how alike the answers to a question are.
type likeness struct {
	Number     int      `json:"number,omitempty"`
	Level      *string  `json:"level"`
	Agreement  *float64 `json:"agreement"`
	Similarity *float64 `json:"similarity,omitempty"`
	Letters    *string  `json:"letters"`
	// FactsDiffer is conflict, omission or none.
	FactsDiffer *string  `json:"facts_differ"`
	PassShare   *float64 `json:"pass_share,omitempty"`
}

// likenessWithFacts is a likeness as the API returns it.
type likenessWithFacts struct {
	likeness
	Facts []fact `json:"facts"`
}

// saidLikeness is a likeness as the tools return it, with its facts marked as untrusted.
type saidLikeness struct {
	likeness
	Facts []*Untrusted `json:"facts,omitempty"`
}

func (l likenessWithFacts) say(t *texts) saidLikeness {
	return saidLikeness{l.likeness, sayFacts(t, l.Facts)}
}

func sayFacts(t *texts, facts []fact) (said []*Untrusted) {
	for _, one := range facts[:min(len(facts), mostFacts)] {
		text := one.String()
		said = append(said, t.wrap(&text, ofFact))
	}
	return said
}

// answered is a question with its answers, as the API returns it.
type answered struct {
	QuestionID     string `json:"question_id"`
	Question       string `json:"question"`
	StandardAnswer string `json:"standard_answer"`
	likenessWithFacts
	Variants []likenessWithFacts `json:"variants"`
	Runs     []struct {
		run
		ResponseBody *string `json:"response_body"`
		ErrorMessage *string `json:"error_message"`
		Evaluations  []struct {
			evaluation
			Reason *string `json:"reason"`
		} `json:"evaluations"`
	} `json:"runs"`
}

type run struct {
	RunID        *int64  `json:"run_id"`
	Variant      int     `json:"variant"`
	RunIndex     int     `json:"run_index"`
	Status       string  `json:"status"`
	ErrorCode    *string `json:"error_code,omitempty"`
	FinishReason *string `json:"finish_reason,omitempty"`
	LatencyMS    *int    `json:"latency_ms"`
}

type evaluation struct {
	Name   string   `json:"name"`
	Status string   `json:"status"`
	Score  *float64 `json:"score"`
	Passed *bool    `json:"passed"`
}

type saidEvaluation struct {
	evaluation
	Name   *Untrusted `json:"name"`
	Reason *Untrusted `json:"reason,omitempty"`
}

type saidRun struct {
	run
	Answer       *Untrusted       `json:"answer"`
	ErrorMessage *Untrusted       `json:"error_message,omitempty"`
	Evaluations  []saidEvaluation `json:"evaluations,omitempty"`
}

// saidQuestion is a question as the tools return it.
type saidQuestion struct {
	QuestionID     string     `json:"question_id"`
	Question       *Untrusted `json:"question"`
	StandardAnswer *Untrusted `json:"standard_answer,omitempty"`
	saidLikeness
	Variants []saidLikeness `json:"variants,omitempty"`
	Runs     []saidRun      `json:"runs,omitempty"`
	// LeftOut says how many of the runs are left out; empty if none are.
	LeftOut string `json:"left_out,omitempty"`
}

// say returns the question for a result, without its answers.
func (a answered) say(t *texts) saidQuestion {
	said := saidQuestion{QuestionID: a.QuestionID, Question: t.wrap(&a.Question, ofQuestion)}
	said.saidLikeness = a.likenessWithFacts.say(t)
	if len(a.Variants) > 1 {
		for _, one := range a.Variants {
			said.Variants = append(said.Variants, one.say(t))
		}
	}
	return said
}

// sayAnswers adds the standard answer and the answers to the question in a result, each cut to at most the given number
// of characters.
func (a answered) sayAnswers(t *texts, said *saidQuestion, most int) {
	if a.StandardAnswer != "" {
		said.StandardAnswer = t.wrap(&a.StandardAnswer, most)
	}
	shown := a.Runs[:min(len(a.Runs), t.runs)]
	if t.runs -= len(shown); len(shown) < len(a.Runs) {
		said.LeftOut = fmt.Sprintf("%d of %d runs; for these, ask for this question_id alone, one variant at a time",
			len(a.Runs)-len(shown), len(a.Runs))
	}
	for _, one := range shown {
		answer := saidRun{run: one.run, Answer: t.wrap(one.ResponseBody, most),
			ErrorMessage: t.wrap(one.ErrorMessage, ofReason)}
		for _, verdict := range one.Evaluations {
			judged := saidEvaluation{evaluation: verdict.evaluation, Name: t.wrap(&verdict.Name, ofName)}
			if verdict.Reason != nil && *verdict.Reason != "" {
				judged.Reason = t.wrap(verdict.Reason, ofReason)
			}
			answer.Evaluations = append(answer.Evaluations, judged)
		}
		said.Runs = append(said.Runs, answer)
	}
}

// answersOutput is the result of a tool that returns a page of questions.
type answersOutput struct {
	Notice     string          `json:"notice"`
	IsFinal    bool            `json:"is_final"`
	Items      []saidQuestion  `json:"items"`
	Pagination json.RawMessage `json:"pagination"`
}

// results requests a page of a task's results, and returns each question as say converts it.
func (c client) results(ctx context.Context, task ofTask, query url.Values,
	say func(*texts, answered) saidQuestion) (any, error) {
	var page struct {
		IsFinal    bool            `json:"is_final"`
		Items      []answered      `json:"items"`
		Pagination json.RawMessage `json:"pagination"`
	}
	query.Set("partial", "1")
	err := c.ask(ctx, call{method: http.MethodGet, path: ofTasks(task.TaskID, "results"), query: query,
		project: task.Project}, &page)
	if err != nil {
		return nil, err
	}
	t := newTexts()
	output := answersOutput{t.notice(), page.IsFinal, []saidQuestion{}, page.Pagination}
	for _, item := range page.Items {
		output.Items = append(output.Items, say(t, item))
	}
	return output, nil
}

func (c client) worstQuestions(ctx context.Context, input worstInput) (any, error) {
	query := paged(url.Values{"sort": {"risk"}}, input.Page, input.Limit, 10, 20)
	return c.results(ctx, input.ofTask, query, func(t *texts, item answered) saidQuestion { return item.say(t) })
}

func (c client) readAnswers(ctx context.Context, input answersInput) (any, error) {
	query := paged(url.Values{}, input.Page, input.PageSize, 3, 10)
	for name, value := range map[string]string{"question_id": input.QuestionID, "level": input.Level} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if input.Variant != 0 {
		query.Set("variant", strconv.Itoa(input.Variant))
	}
	most := usualText
	if input.MaxCharacters != 0 {
		most = max(leastText, min(input.MaxCharacters, mostText/3))
	}
	return c.results(ctx, input.ofTask, query, func(t *texts, item answered) saidQuestion {
		said := item.say(t)
		item.sayAnswers(t, &said, most)
		return said
	})
}

// comparedPair is a question that both tasks have, as the API returns it.
type comparedPair struct {
	pairHead
	Facts []fact `json:"facts"`
}

type pairHead struct {
	QuestionID  string   `json:"question_id"`
	Group       string   `json:"group"`
	Worse       []string `json:"worse"`
	Similarity  *float64 `json:"similarity"`
	FactsDiffer *string  `json:"facts_differ"`
	Transition  string   `json:"transition"`
	A           likeness `json:"a"`
	B           likeness `json:"b"`
}

type saidPair struct {
	pairHead
	Facts []*Untrusted `json:"facts,omitempty"`
}

// compare compares two tasks. Its result contains the numbers of the questions that only one of them has, instead of
// lists.
func (c client) compare(ctx context.Context, input compareInput) (any, error) {
	var found struct {
		Items []comparedPair `json:"items"`
		OnlyA []string       `json:"only_a"`
		OnlyB []string       `json:"only_b"`
	}
	var rest map[string]any
	var body json.RawMessage
	query := url.Values{"a": {input.A}, "b": {input.B}, "sort": {"risk"},
		"group": {"worse,facts,content,wording,unanswered"}}
	err := c.ask(ctx, call{method: http.MethodGet, path: paths.APIComparison, query: query, project: input.Project}, &body)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &found); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &rest); err != nil {
		return nil, err
	}
	t, pairs := newTexts(), []saidPair{}
	for _, pair := range found.Items[:min(len(found.Items), mostPairs)] {
		pairs = append(pairs, saidPair{pair.pairHead, sayFacts(t, pair.Facts)})
	}
	output := map[string]any{"notice": t.notice(), "items": pairs, "items_total": len(found.Items),
		"only_a": len(found.OnlyA), "only_b": len(found.OnlyB)}
	for name, value := range rest {
		if _, isSaid := output[name]; !isSaid {
			output[name] = t.markMember(name, value)
		}
	}
	return output, nil
}
