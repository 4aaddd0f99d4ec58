package review

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Sample is a random sample of a task's runs: at most one run of each question.
type Sample struct {
	ID uuid.UUID `db:"id"`
	// Seed reproduces the sample from the same runs.
	Seed int64 `db:"seed"`
	// IsStratified reports that all variants have about the same number of runs in it.
	IsStratified bool      `db:"is_stratified"`
	CreatedAt    time.Time `db:"created_at"`
	// Runs are the sample's runs in the order in which they were drawn.
	Runs []SampledRun
}

// SampledRun is a run that a sample contains, with the reviewers who have judged it.
type SampledRun struct {
	SampleID   uuid.UUID `db:"sample_id"`
	ItemID     int64     `db:"item_id"`
	QuestionID string    `db:"question_id"`
	// Number is the question's number, from 1, in the order in which pages list the questions.
	Number   int `db:"number"`
	Variant  int `db:"variant"`
	RunIndex int `db:"run_index"`
	// Reviewers are those whose verdicts on the run are current.
	Reviewers pq.StringArray `db:"reviewers"`
}

// IsJudgedBy reports whether a reviewer has judged the run; an empty name means any reviewer.
func (r SampledRun) IsJudgedBy(reviewer string) bool {
	return slices.Contains(r.Reviewers, reviewer) || reviewer == "" && len(r.Reviewers) > 0
}

// JudgedBy counts the runs that a reviewer has judged; an empty name means any reviewer.
func (s Sample) JudgedBy(reviewer string) (judged int) {
	for _, run := range s.Runs {
		if run.IsJudgedBy(reviewer) {
			judged++
		}
	}
	return judged
}

// MaxSample is the maximum number of runs of a sample.
const MaxSample = 1000

// ErrAllSampled means that every question with an answer is in a sample already.
var ErrAllSampled = errors.New("every question is in a sample")

// verdictsOnRun selects the current verdicts v on a run r that has not been replaced since. A verdict on a whole
// question applies to a run only if the task has one run of each question.
const verdictsOnRun = `
	FROM reviews v
	WHERE v.item_id = r.item_id AND v.variant = r.variant AND v.judged_run_id = r.id AND v.is_current
	AND NOT v.is_withdrawn AND (v.run_index = r.run_index OR v.run_index IS NULL AND 1 = (
		SELECT runs_per_item FROM evaluation_tasks WHERE id = r.task_id))`

// Samples returns the samples of a task, the oldest first.
func (r Reviews) Samples(ctx context.Context, taskID uuid.UUID) (samples []Sample, err error) {
	const (
		list = `SELECT id, seed, is_stratified, created_at FROM samples WHERE task_id = $1 ORDER BY created_at, id`
		runs = `
			SELECT s.sample_id, s.item_id, i.question_id, i.number, s.variant, s.run_index,
				ARRAY(SELECT DISTINCT v.reviewer ` + verdictsOnRun + `) AS reviewers
			FROM sampled_runs s
			JOIN (
				SELECT id, question_id, row_number() OVER (ORDER BY sort_key) AS number
				FROM evaluation_items
				WHERE task_id = $1
			) i ON i.id = s.item_id
			LEFT JOIN evaluation_runs r ON r.item_id = s.item_id AND r.variant = s.variant AND r.run_index = s.run_index
				AND r.is_current
			ORDER BY s.place`
	)
	if err := r.db.SelectContext(ctx, &samples, list, taskID); err != nil || len(samples) == 0 {
		return nil, pg.Classify("list the samples", err)
	}
	places := map[uuid.UUID]int{}
	for n, sample := range samples {
		places[sample.ID] = n
	}
	err = pg.EachRow(ctx, r.db, "read the samples", runs, []any{taskID}, func(one SampledRun) error {
		of := &samples[places[one.SampleID]]
		of.Runs = append(of.Runs, one)
		return nil
	})
	return samples, err
}

// Draw draws a sample of at most size answered runs of a task, from the questions that are in no sample yet. It
// returns ErrAllSampled if there are none.
func (r Reviews) Draw(ctx context.Context, taskID uuid.UUID, size int, seed int64, isStratified bool) (Sample, error) {
	const (
		read = `
			SELECT i.id AS item_id, r.variant, r.run_index
			FROM evaluation_items i
			JOIN evaluation_runs r ON r.item_id = i.id AND r.is_current AND r.status = 'SUCCEEDED'
			WHERE i.task_id = $1 AND r.run_index <= (SELECT runs_per_item FROM evaluation_tasks WHERE id = $1)
			AND NOT EXISTS (SELECT FROM sampled_runs s WHERE s.item_id = i.id)
			ORDER BY i.sort_key, r.variant, r.run_index`
		insert = `INSERT INTO samples (id, task_id, seed, is_stratified) VALUES ($1, $2, $3, $4)`
		fill   = `
			INSERT INTO sampled_runs (sample_id, item_id, place, variant, run_index)
			SELECT $1, item_id, place, variant, run_index
			FROM unnest($2::bigint[], $3::int[], $4::int[]) WITH ORDINALITY d (item_id, variant, run_index, place)`
	)
	id := uuid.New()
	err := r.db.InTx(ctx, "draw a sample", func(tx *sqlx.Tx) error {
		variants, err := lockTask(ctx, tx, taskID)
		if err != nil {
			return err
		}
		var answered []SampledRun
		if err := tx.SelectContext(ctx, &answered, read, taskID); err != nil {
			return pg.Classify("read the answers", err)
		}
		chosen := choose(answered, size, seed, variants, isStratified)
		if len(chosen) == 0 {
			return ErrAllSampled
		}
		if _, err := tx.ExecContext(ctx, insert, id, taskID, seed, isStratified); err != nil {
			return pg.Classify("store the sample", err)
		}
		var items, ofVariant, indexes pq.Int64Array
		for _, run := range chosen {
			items, ofVariant = append(items, run.ItemID), append(ofVariant, int64(run.Variant))
			indexes = append(indexes, int64(run.RunIndex))
		}
		_, err = tx.ExecContext(ctx, fill, id, items, ofVariant, indexes)
		return pg.Classify("store the sample's runs", err)
	})
	if err != nil {
		return Sample{}, err
	}
	drawn, err := r.Sample(ctx, taskID, id)
	if err != nil {
		return Sample{}, err
	}
	if drawn == nil {
		return Sample{}, &db.NotFoundError{Kind: db.KindTask} // it was deleted in the meantime
	}
	return *drawn, nil
}

// Sample returns the sample of a task with the given id; nil if there is none.
func (r Reviews) Sample(ctx context.Context, taskID, id uuid.UUID) (*Sample, error) {
	samples, err := r.Samples(ctx, taskID)
	for n := range samples {
		if samples[n].ID == id {
			return &samples[n], err
		}
	}
	return nil, err
}

// choose draws, at random, at most size questions and one answered run of each. A stratified sample takes the
// variants in turn, beginning with a random one, where a question has an answer of that variant.
func choose(answered []SampledRun, size int, seed int64, variants int, isStratified bool) []SampledRun {
	random := rand.New(rand.NewPCG(uint64(seed), uint64(variants)))
	var questions [][]SampledRun
	for n, run := range answered {
		if n == 0 || run.ItemID != answered[n-1].ItemID {
			questions = append(questions, nil)
		}
		last := len(questions) - 1
		questions[last] = append(questions[last], run)
	}
	random.Shuffle(len(questions), func(a, b int) { questions[a], questions[b] = questions[b], questions[a] })
	questions = questions[:min(size, len(questions))]
	first := random.IntN(variants)
	chosen := make([]SampledRun, len(questions))
	for n, runs := range questions {
		if isStratified {
			var own []SampledRun
			for _, run := range runs {
				if run.Variant == 1+(first+n)%variants {
					own = append(own, run)
				}
			}
			if len(own) > 0 {
				runs = own
			}
		}
		chosen[n] = runs[random.IntN(len(runs))]
	}
	return chosen
}

// JudgedRun is a run on which an evaluator and people have reached a verdict.
type JudgedRun struct {
	Labelled
	// Evaluator is the evaluator's number in its task.
	Evaluator         int
	ItemID            int64
	Variant, RunIndex int
}

// Judged returns, for each evaluator of a task, the runs that it and people have judged. People's verdict is the
// majority's; runs with a tie are left out, and so are the votes of people who are unsure.
func (r Reviews) Judged(ctx context.Context, taskID uuid.UUID) (judged []JudgedRun, err error) {
	const read = `
		SELECT e.evaluator, r.item_id, r.variant, r.run_index, e.passed, people.passes > people.fails AS person,
			s.item_id IS NOT NULL AS is_sampled
		FROM (
			SELECT DISTINCT i.id
			FROM evaluation_items i
			JOIN reviews v ON v.item_id = i.id
			WHERE i.task_id = $1
		) i -- people judge few questions, so these are found first
		JOIN evaluation_runs r ON r.item_id = i.id
		CROSS JOIN LATERAL (
			SELECT count(*) FILTER (WHERE said.verdict = 'PASS') AS passes,
				count(*) FILTER (WHERE said.verdict = 'FAIL') AS fails
			FROM (
				SELECT DISTINCT ON (v.reviewer) v.verdict ` + verdictsOnRun + `
				ORDER BY v.reviewer, v.run_index -- a verdict on the answer takes precedence over the one on its question
			) said
		) people
		JOIN evaluations e ON e.run_id = r.id AND e.passed IS NOT NULL
		LEFT JOIN sampled_runs s ON s.item_id = r.item_id AND s.variant = r.variant AND s.run_index = r.run_index
		WHERE r.task_id = $1 AND r.is_current AND people.passes <> people.fails
		AND r.run_index <= (SELECT runs_per_item FROM evaluation_tasks WHERE id = $1)
		ORDER BY e.evaluator, r.item_id, r.variant, r.run_index`
	type row struct {
		Evaluator int
		ItemID    int64 `db:"item_id"`
		Variant   int
		RunIndex  int `db:"run_index"`
		Passed    bool
		Person    bool
		IsSampled bool `db:"is_sampled"`
	}
	err = pg.EachRow(ctx, r.db, "compare the judges with people", read, []any{taskID}, func(one row) error {
		judged = append(judged, JudgedRun{Labelled{one.Passed, one.Person, one.IsSampled}, one.Evaluator, one.ItemID,
			one.Variant, one.RunIndex})
		return nil
	})
	return judged, err
}

// judgedByAll returns the part of a statement that selects the runs r on which version $3 of a saved evaluator, $2, and
// people have reached a verdict, in the tasks t of the scope $1; version 0 means all. e holds the evaluator's verdicts,
// and people the numbers of people who passed and failed each run.
func judgedByAll() string {
	return `
		FROM (
			SELECT DISTINCT i.id, i.task_id
			FROM task_evaluators te
			JOIN evaluation_items i ON i.task_id = te.task_id
			JOIN reviews v ON v.item_id = i.id
			WHERE te.evaluator_id = $2
		) i -- people judge few questions, so these are found first
		JOIN evaluation_tasks t ON t.id = i.task_id AND ` + db.Within("t.project_id", "$1") + `
		JOIN task_evaluators te ON te.task_id = t.id AND te.evaluator_id = $2
		JOIN evaluation_runs r ON r.item_id = i.id AND r.is_current AND r.run_index <= t.runs_per_item
		JOIN evaluations e ON e.run_id = r.id AND e.evaluator = te.number AND e.passed IS NOT NULL
			AND ($3 = 0 OR coalesce(e.version, te.version) = $3)
		CROSS JOIN LATERAL (
			SELECT count(*) FILTER (WHERE said.verdict = 'PASS') AS passes,
				count(*) FILTER (WHERE said.verdict = 'FAIL') AS fails
			FROM (
				SELECT DISTINCT ON (v.reviewer) v.verdict ` + verdictsOnRun + `
				ORDER BY v.reviewer, v.run_index
			) said
		) people
		WHERE people.passes <> people.fails`
}

// JudgedTask compares the verdicts that one version of a saved evaluator gave in a task with people's.
type JudgedTask struct {
	TaskID uuid.UUID `db:"task_id"`
	Name   string    `db:"task_name"`
	// Evaluator is the evaluator's number in the task.
	Evaluator int `db:"evaluator"`
	Version   int `db:"version"`
	Confusion
}

// JudgedTasks compares a saved evaluator with people in each task that used it, for each version, newest first; tasks
// without common verdicts are left out. version 0 means all versions.
func (r Reviews) JudgedTasks(ctx context.Context, scope db.Scope, evaluator uuid.UUID,
	version int) (tasks []JudgedTask, err error) {
	read := `
		SELECT t.id AS task_id, t.task_name, te.number AS evaluator, coalesce(e.version, te.version) AS version,
			count(*) FILTER (WHERE e.passed AND people.passes > people.fails) AS pass_pass,
			count(*) FILTER (WHERE e.passed AND people.passes < people.fails) AS pass_fail,
			count(*) FILTER (WHERE NOT e.passed AND people.passes > people.fails) AS fail_pass,
			count(*) FILTER (WHERE NOT e.passed AND people.passes < people.fails) AS fail_fail` + judgedByAll() + `
		GROUP BY t.id, te.number, coalesce(e.version, te.version)
		ORDER BY coalesce(e.version, te.version) DESC, t.created_at DESC, t.id, te.number`
	err = r.db.SelectContext(ctx, &tasks, read, scope, evaluator, version)
	return tasks, pg.Classify("compare the evaluator with people", err)
}

// Record compares a version of a saved evaluator with people, over all tasks of a project that used it. The pass rate
// is not corrected: samples of several tasks are not one random sample.
func (r Reviews) Record(ctx context.Context, project, evaluator uuid.UUID, version int) (Fit, error) {
	tasks, err := r.JudgedTasks(ctx, db.InProject(project), evaluator, version)
	var counts Confusion
	for _, task := range tasks {
		counts = counts.Plus(task.Confusion)
	}
	return counts.Fit(), err
}

// VersionRecord compares a version of a saved evaluator with people, over all tasks that used it.
type VersionRecord struct {
	Version int
	Tasks   []JudgedTask
	Fit     Fit
}

// Records compares the versions of a saved evaluator with people, newest first; versions without common verdicts are
// left out.
func (r Reviews) Records(ctx context.Context, scope db.Scope,
	evaluator uuid.UUID) (records []VersionRecord, err error) {
	tasks, err := r.JudgedTasks(ctx, scope, evaluator, 0)
	for _, task := range tasks {
		if last := len(records) - 1; last < 0 || records[last].Version != task.Version {
			records = append(records, VersionRecord{Version: task.Version})
		}
		last := &records[len(records)-1]
		last.Tasks = append(last.Tasks, task)
		last.Fit.Confusion = last.Fit.Confusion.Plus(task.Confusion)
	}
	for n := range records {
		records[n].Fit = records[n].Fit.Confusion.Fit()
	}
	return records, err
}

// JudgedAnswer is an answer on which a version of a saved evaluator and people have reached a verdict.
type JudgedAnswer struct {
	TaskID      uuid.UUID `db:"task_id"`
	RunID       int64     `db:"run_id"`
	ItemID      int64     `db:"item_id"`
	Variant     int       `db:"variant"`
	RunIndex    int       `db:"run_index"`
	LatencyMS   *int      `db:"latency_ms"`
	TotalTokens *int      `db:"total_tokens"`
	// Passed reports whether the version passed it, and Person whether people did.
	Passed bool `db:"passed"`
	Person bool `db:"person"`
}

// JudgedAnswers returns up to the given number of answers that both a version of a saved evaluator and people have
// judged. Answers of random samples come first; the others are a random choice, which stays the same.
func (r Reviews) JudgedAnswers(ctx context.Context, scope db.Scope, evaluator uuid.UUID, version,
	most int) (answers []JudgedAnswer, err error) {
	read := `
		SELECT t.id AS task_id, r.id AS run_id, r.item_id, r.variant, r.run_index, r.latency_ms, r.total_tokens, e.passed,
			people.passes > people.fails AS person` + judgedByAll() + `
		ORDER BY NOT EXISTS (
			SELECT
			FROM sampled_runs s
			WHERE s.item_id = r.item_id AND s.variant = r.variant AND s.run_index = r.run_index), md5(r.id::text)
		LIMIT $4`
	err = r.db.SelectContext(ctx, &answers, read, scope, evaluator, version, most)
	return answers, pg.Classify("find the answers that people have judged", err)
}

// Fits compares the evaluators of a task with people. The result is keyed by the evaluators' numbers.
func (r Reviews) Fits(ctx context.Context, task db.Task) (map[int]Fit, error) {
	const count = `
		SELECT e.evaluator, count(*) AS runs, count(*) FILTER (WHERE e.passed) AS passes,
			count(DISTINCT r.item_id) AS questions
		FROM evaluation_runs r
		JOIN evaluations e ON e.run_id = r.id AND e.passed IS NOT NULL
		WHERE r.task_id = $1 AND r.is_current
		AND r.run_index <= (SELECT runs_per_item FROM evaluation_tasks WHERE id = $1)
		GROUP BY e.evaluator`
	judged, err := r.Judged(ctx, task.ID)
	if err != nil {
		return nil, err
	}
	byEvaluator, hasSample := map[int][]Labelled{}, false
	for _, one := range judged {
		byEvaluator[one.Evaluator] = append(byEvaluator[one.Evaluator], one.Labelled)
		hasSample = hasSample || one.IsSampled
	}
	type row struct {
		Evaluator, Runs, Passes, Questions int
	}
	all := map[int]Judgements{}
	if hasSample { // the number of all verdicts is needed only for correcting the pass rate by a random sample
		err := pg.EachRow(ctx, r.db, "count the judges' verdicts", count, []any{task.ID}, func(one row) error {
			all[one.Evaluator] = Judgements{one.Runs, one.Passes, one.Questions}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	fits := map[int]Fit{}
	for _, evaluator := range task.Evaluators { // also those without a verdict
		fits[evaluator.Number] = FitOf(byEvaluator[evaluator.Number], all[evaluator.Number])
	}
	return fits, nil
}
