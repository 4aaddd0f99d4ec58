// Package report reads the results and the progress of tasks, for pages, reports and exports. It stores nothing but
// assessments and comparisons of answers.
package report

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/measure"
	"wending/db/pg"
)

// Report reads the results of tasks.
type Report struct{ db *pg.Pool }

// New returns a Report that reads through a store's connections.
func New(store *db.Store) Report { return Report{store.Pool()} }

// Summary holds the data about one item that the overview, filters and orders of all questions need.
type Summary struct {
	ID         int64  `db:"id"`
	QuestionID string `db:"question_id"`
	// Number is the item's number, from 1, in the order in which pages list the items.
	Number int `db:"number"`
	// Series names the conversation that the item is a turn of; nil for a single question.
	Series *string `db:"series"`
	// Cluster identifies the items that are not independent of this one; empty means that the item is independent.
	Cluster string `db:"cluster"`
	// Answers is how many different answers the successful current runs gave: with several variants, the
	// highest count of any variant.
	Answers int `db:"answers"`
	// Runs is the number of current runs, which is less than Planned if the task was stopped.
	Runs    int `db:"runs"`
	Planned int `db:"planned"`
	// Failures is how many current runs did not succeed.
	Failures int `db:"failures"`
	// Judged is how many current runs have a verdict from every evaluator, and Passes how many of those passed.
	Judged int `db:"judged"`
	Passes int `db:"passes"`
	// Score is the mean of the runs' scores; nil if no run has a score.
	Score *float64 `db:"score"`
	// Level, Agreement and Letters are nil while the item is not assessed.
	Level     *measure.Level `db:"level"`
	Agreement *float64       `db:"agreement"`
	Letters   *string        `db:"letters"`
	// AllLetters are the letters of all runs, variant by variant, separated by spaces; nil while the item is not
	// assessed.
	AllLetters *string `db:"all_letters"`
	// MeaningLetters and MeaningAgreement are like Letters and Agreement, by meaning; nil unless the group of every
	// answer is certain.
	MeaningLetters   *string  `db:"meaning_letters"`
	MeaningAgreement *float64 `db:"meaning_agreement"`
	// HasConflict reports that two answers of a variant contradict each other on a fact.
	HasConflict bool `db:"has_conflict"`
	// IsSame reports that, within each variant, all answers have the same content; IsContradicted reports that an
	// answer contradicts the standard answer on a fact.
	IsSame         bool `db:"is_same"`
	IsContradicted bool `db:"is_contradicted"`
	// Meanings is the number of groups that the answers form by meaning: with several variants, the highest of any
	// variant; nil while it is unknown. IsUnsure reports that the group of an answer is not certain, or that the
	// model gave no usable grouping.
	Meanings *int `db:"meanings"`
	IsUnsure bool `db:"is_unsure"`
	// Risk orders items by urgency for a reader: the lower, the more urgent; nil while the item is not assessed.
	Risk *float64 `db:"risk"`
	// LatencyMS is the mean of the successful current runs, nil if there are none; Bytes is the length of the
	// longest answer. Both are set only if measures are requested.
	LatencyMS *float64 `db:"latency_ms"`
	Bytes     int      `db:"bytes"`
	// Matches reports that the item matches the search text.
	Matches bool `db:"matches"`
	// IsAssessed reports that Level, Agreement and Letters are known; Answers is always known.
	IsAssessed bool `db:"is_assessed"`
}

// IsSettled reports whether the item's most common answer is settled in every variant, at the given confidence.
func (s Summary) IsSettled(confidence float64) bool {
	for letters := range strings.FieldsSeq(*s.AllLetters) {
		if first, second := measure.Votes(letters); !measure.IsSettled(first, second, confidence) {
			return false
		}
	}
	return true
}

// IsUnstable reports whether the item got more than one answer.
func (s Summary) IsUnstable() bool { return s.Answers > 1 }

// Contradiction says whether a question's answers contradict each other or the standard answer.
type Contradiction string

// OfFacts means that the answers have the level Facts: they contradict each other and are otherwise alike. OfAnswers
// means that they contradict each other but have a different level, because they also differ in other ways, or only
// runs beyond runs_per_item contradict each other. OfStandard means that they contradict only the standard answer.
const (
	OfFacts                  = Contradiction(measure.Facts)
	OfAnswers  Contradiction = "answers"
	OfStandard Contradiction = "standard"
)

// Contradictions lists all values, in the order of reports.
var Contradictions = []Contradiction{OfFacts, OfAnswers, OfStandard}

// Contradicts returns what the item's answers contradict; empty if they contradict nothing.
func (s Summary) Contradicts() Contradiction {
	switch {
	case s.Level != nil && *s.Level == measure.Facts:
		return OfFacts
	case s.HasConflict:
		return OfAnswers
	case s.IsContradicted:
		return OfStandard
	}
	return ""
}

// The columns about an item's runs; countVerdicts is read only for tasks with evaluators, and measureAnswers only on
// request. octet_length does not read the text itself.
const (
	countRuns     = `count(*) AS runs, count(*) FILTER (WHERE status <> 'SUCCEEDED') AS failures`
	countVerdicts = `, count(passed) FILTER (WHERE run_index <= runs_per_item) AS judged,
		count(*) FILTER (WHERE passed AND run_index <= runs_per_item) AS passes,
		avg(score) FILTER (WHERE run_index <= runs_per_item) AS score`
	measureAnswers = `, avg(latency_ms) FILTER (WHERE status = 'SUCCEEDED') AS latency_ms,
		max(octet_length(response_body)) AS bytes`
)

// summariseItems returns the statement that reads the summaries of a task's items, with verdicts if isJudged and with
// measures if withMeasures, and searches the items for a text with the operator like.
func summariseItems(isJudged, withMeasures bool, like string) string {
	known, measures := "", ""
	if withMeasures {
		known, measures = "r.latency_ms, coalesce(r.bytes, 0) AS bytes,", measureAnswers
	}
	if isJudged {
		known, measures = known+" coalesce(r.judged, 0) AS judged, coalesce(r.passes, 0) AS passes, r.score,",
			measures+countVerdicts
	}
	return `
	SELECT i.id, i.question_id, i.series, ` + db.ClusterOf + ` AS cluster, row_number() OVER (ORDER BY i.sort_key) AS number,
		coalesce(q.answers, 0) AS answers, q.item_id IS NOT NULL AS is_assessed,
		coalesce(r.runs, 0) AS runs,
		t.runs_per_item * CASE WHEN $4 = 0 THEN t.total_variants ELSE 1 END + coalesce((
			SELECT sum(p.runs - t.runs_per_item) FROM planned_runs p WHERE p.item_id = i.id
			AND ($4 = 0 OR p.variant = $4)), 0) AS planned,
		coalesce(r.failures, 0) AS failures,
		q.level, q.agreement, q.letters, q.all_letters, q.meaning_letters, q.meaning_agreement, q.risk,
		coalesce(q.has_conflict, false) AS has_conflict,
		coalesce(q.is_same, false) AS is_same, coalesce(q.is_contradicted, false) AS is_contradicted,
		q.meanings, coalesce(q.is_unsure, false) AS is_unsure, ` + known + `
		($2 = '' OR i.question_id ` + like + ` $2 OR i.question ` + like + ` $2 OR i.standard_answer ` + like + ` $2
			OR EXISTS (SELECT FROM unnest(i.variable_values) AS own (value) WHERE own.value ` + like + ` $2) OR EXISTS (
			SELECT FROM evaluation_runs found
			WHERE found.item_id = i.id AND found.is_current AND ($4 = 0 OR found.variant = $4)
			AND (left(found.response_body, $3) ` + like + ` $2 OR found.trace_id = lower($5) OR found.agent_trace_id = $5))) AS matches
	FROM evaluation_items i
	JOIN evaluation_tasks t ON t.id = i.task_id
	LEFT JOIN (
		SELECT item_id, ` + countRuns + measures + `
		FROM evaluation_runs
		JOIN (SELECT runs_per_item FROM evaluation_tasks WHERE id = $1) t ON true
		WHERE task_id = $1 AND is_current AND ($4 = 0 OR variant = $4)
		GROUP BY item_id) r ON r.item_id = i.id
	LEFT JOIN ( -- of several variants: the riskiest level, so that no conflict is hidden, and the mean of the agreement
		SELECT q.item_id, max(q.answers) AS answers,
			(array_agg(q.level ORDER BY array_position($6::text[], q.level)))[1] AS level, avg(q.agreement) AS agreement,
			-- the same number of letters for each question
			string_agg(left(q.letters, (SELECT runs_per_item FROM evaluation_tasks WHERE id = $1)), ''
				ORDER BY q.variant) AS letters,
			string_agg(q.letters, ' ' ORDER BY q.variant) AS all_letters,
			CASE WHEN bool_and(q.meaning_unsure = '{}') THEN
				string_agg(left(q.meaning_letters, (SELECT runs_per_item FROM evaluation_tasks WHERE id = $1)), ''
					ORDER BY q.variant) END AS meaning_letters,
			CASE WHEN bool_and(q.meaning_unsure = '{}') THEN avg(q.meaning_agreement) END AS meaning_agreement,
			bool_or(q.facts_differ = 'conflict') AS has_conflict, bool_and(q.level IN ('identical', 'format_only')) AS is_same,
			bool_or(q.expected_facts IS NOT NULL) AS is_contradicted,
			max(q.meaning_groups) AS meanings, bool_or(q.meaning_default OR q.meaning_unsure <> '{}') AS is_unsure, min(` + riskOfQuestion + `) AS risk
		FROM question_statistics q
		JOIN evaluation_items own ON own.id = q.item_id
		WHERE own.task_id = $1 AND ($4 = 0 OR q.variant = $4)
		GROUP BY q.item_id) q ON q.item_id = i.id
	WHERE i.task_id = $1
	ORDER BY i.sort_key`
}

// AsNumber parses the number of a question as people write it: 46, #46 or 第46题.
func AsNumber(text string) (number int, isNumber bool) {
	found := asNumber.FindStringSubmatch(text)
	if found == nil {
		return 0, false
	}
	number, err := strconv.Atoi(found[1])
	return number, err == nil
}

var asNumber = regexp.MustCompile(`^(?:#|第)? ?([1-9][0-9]{0,5}) ?题?$`)

// Summaries returns a summary of each of the task's items, in the order in which pages and exports list them, based on
// the runs of one variant, or of all variants if variant is 0. An item matches if its question_id, question, standard
// answer, another of its columns or the beginning of one of its answers contains text, ignoring case, or if text is the
// id of one of its runs in traces, or the item's number ("46", "#46", "第46题"). It returns ErrSearchTooSlow if the
// search takes longer than searchTime.
func (r Report) Summaries(ctx context.Context, task db.Task, variant int, text string,
	withMeasures bool) ([]Summary, error) {
	like := "ILIKE"
	if strings.ToLower(text) == strings.ToUpper(text) { // Chinese has no case; case-sensitive search is twice as fast
		like = "LIKE"
	}
	var summaries []Summary
	statement, arguments := summariseItems(len(task.Evaluators) > 0, withMeasures, like),
		[]any{task.ID, pg.Containing(text), searchedText, variant, text, pq.Array(levelsByRisk)}
	if text == "" {
		if err := r.db.SelectContext(ctx, &summaries, statement, arguments...); err != nil {
			return nil, pg.Classify("summarise the questions", err)
		}
		return summaries, r.countAnswers(ctx, task.ID, summaries, variant)
	}
	limited, cancel := context.WithTimeoutCause(ctx, searchTime, ErrSearchTooSlow)
	defer cancel()
	err := r.db.SelectContext(limited, &summaries, statement, arguments...)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return nil, ErrSearchTooSlow
	}
	if err != nil {
		return nil, pg.Classify("search the questions", err)
	}
	if number, isNumber := AsNumber(text); isNumber {
		for n := range summaries {
			summaries[n].Matches = summaries[n].Matches || summaries[n].Number == number
		}
	}
	return summaries, r.countAnswers(ctx, task.ID, summaries, variant)
}

// countAnswers counts the different answers to questions that are not assessed yet; a task that has ended has no
// such questions.
func (r Report) countAnswers(ctx context.Context, taskID uuid.UUID, summaries []Summary, variant int) error {
	const count = `
		SELECT item_id, max(answers) AS answers
		FROM (
			SELECT item_id, count(DISTINCT answer_key) AS answers
			FROM evaluation_runs
			WHERE task_id = $1 AND is_current AND item_id = ANY ($2) AND ($3 = 0 OR variant = $3)
			GROUP BY item_id, variant) counted
		GROUP BY item_id`
	var open []int64
	for _, one := range summaries {
		if !one.IsAssessed && one.Runs > 0 {
			open = append(open, one.ID)
		}
	}
	if len(open) == 0 {
		return nil
	}
	var found []struct {
		ItemID  int64 `db:"item_id"`
		Answers int   `db:"answers"`
	}
	if err := r.db.SelectContext(ctx, &found, count, taskID, pq.Int64Array(open), variant); err != nil {
		return pg.Classify("count the answers", err)
	}
	answers := make(map[int64]int, len(found))
	for _, one := range found {
		answers[one.ItemID] = one.Answers
	}
	for n := range summaries {
		if !summaries[n].IsAssessed {
			summaries[n].Answers = answers[summaries[n].ID]
		}
	}
	return nil
}

// searchedText is how many characters at the beginning of an answer are searched, and searchTime is the time limit for
// a whole search.
const (
	searchedText = 20_000
	searchTime   = 5 * time.Second
)

// ErrSearchTooSlow means that the search did not finish in time, because there are many long answers.
var ErrSearchTooSlow = errors.New("the search took too long")

// Retry is the progress of an item's runs in the task's active launch.
type Retry struct {
	ItemID int64 `db:"item_id"`
	// Done of Total runs have ended; Total is 0 while the launch waits to start.
	Done  int `db:"done"`
	Total int `db:"total"`
}

// Retrying returns the progress of the items that the task's active launch runs again, keyed by item id.
func (r Report) Retrying(ctx context.Context, taskID uuid.UUID, itemIDs []int64) (map[int64]Retry, error) {
	const read = `
		SELECT i.id AS item_id, count(u.id) AS total,
			count(u.id) FILTER (
				WHERE u.state NOT IN ('QUEUED', 'RUNNING') OR EXISTS (SELECT FROM evaluation_runs r WHERE r.unit_id = u.id
				AND r.item_id = i.id)) AS done
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id
		JOIN evaluation_items i ON i.task_id = t.id AND i.id = ANY ($2)
		-- for a conversation, units that begin at an earlier turn also count
		LEFT JOIN units u ON u.launch_id = l.id AND u.evaluator = 0 AND u.item_id = ANY (ARRAY(
			SELECT i.id UNION SELECT id FROM evaluation_items WHERE task_id = i.task_id AND series = i.series AND turn < i.turn))
		WHERE l.task_id = $1 AND l.status IN ('PENDING', 'RUNNING', 'STOPPING')
		GROUP BY i.id, l.id, t.runs_per_item, t.total_variants
		HAVING count(u.id) > 0
			OR l.started_at IS NULL AND (l.item_id = i.id OR l.item_id IS NULL AND ` + db.RunsOfItem + ` > (
				SELECT count(*) FROM evaluation_runs WHERE item_id = i.id AND is_current AND status = 'SUCCEEDED'))`
	var retries []Retry
	if err := r.db.SelectContext(ctx, &retries, read, taskID, pq.Int64Array(itemIDs)); err != nil {
		return nil, pg.Classify("read the progress of retries", err)
	}
	byItem := make(map[int64]Retry, len(retries))
	for _, retry := range retries {
		byItem[retry.ItemID] = retry
	}
	return byItem, nil
}
