package api

import (
	"context"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/db/meaning"
	"wending/db/measure"
	"wending/db/measure/facts"
	"wending/db/report"
	"wending/db/review"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/jobs/evaluate"
)

// TaskEvaluator is an evaluator of a task, as configured when the task was created.
type TaskEvaluator struct {
	ID      uuid.UUID     `json:"id"`
	Version int           `json:"version" example:"1"`
	Name    string        `json:"name" example:"答案一致"`
	Kind    evaluate.Kind `json:"kind" example:"exact"`
}

func newEvaluator(e db.Evaluator) TaskEvaluator {
	return TaskEvaluator{e.EvaluatorID, e.Version, e.Name, evaluate.Kind(e.Kind)}
}

func newEvaluators(evaluators []db.Evaluator) []TaskEvaluator {
	list := make([]TaskEvaluator, len(evaluators))
	for n, evaluator := range evaluators {
		list[n] = newEvaluator(evaluator)
	}
	return list
}

// variantStatistics are the statistics of one variant of a task.
type variantStatistics struct {
	report.VariantStatistics
	Levels      map[string]int `json:"levels" doc:"Number of questions at each level: identical, format_only, facts, wording, different, empty, unknown"`
	FactsDiffer map[string]int `json:"facts_differ" doc:"Number of questions whose answers contradict each other on a fact (conflict), of which only some state a fact (omission), or neither (none)"`
	Verdicts
}

// newVariantStatistics combines the statistics of a variant. Questions that have no level are counted as unknown.
func newVariantStatistics(numbers report.VariantStatistics, levels, differ map[string]int,
	verdicts measure.Statistics) variantStatistics {
	counts, known := map[string]int{}, 0
	for _, level := range measure.Levels {
		counts[string(level)] = levels[string(level)]
		known += levels[string(level)]
	}
	counts[string(measure.Unknown)] += numbers.Items - known
	differing := map[string]int{}
	for _, kind := range facts.Differs {
		differing[string(kind)] = differ[string(kind)]
	}
	return variantStatistics{numbers, counts, differing, Verdicts{verdicts}}
}

// Verdicts are the statistics of evaluators' verdicts.
type Verdicts struct {
	measure.Statistics
}

// evaluatorStatistics are the statistics of one evaluator's verdicts.
type evaluatorStatistics struct {
	TaskEvaluator
	Variants []EvaluatorVariant `json:"variants"`
	// ScaleSuspect is 1 or 10 if a judge seems to rate on a scale up to that number instead of 100; otherwise nil.
	ScaleSuspect *int `json:"scale_suspect" enum:"1,10" doc:"1 or 10 for a judge that seems to rate on that scale instead of up to 100: at least five answers were rated, none above this number. Its prompt should ask for ratings from 0 to 100. Null if nothing is suspicious"`
	// Noise attributes the differences between the scores to their causes.
	Noise  measure.Noise `json:"noise" doc:"Sources of the differences between the evaluator's scores"`
	People review.Fit    `json:"people" doc:"The evaluator's verdicts beside people's on the same answers"`
	// Record is like People, over all tasks of the project that used this version of the evaluator.
	Record review.Fit `json:"record" doc:"The same over all tasks of the project that used this version of the evaluator; pass_rate_corrected is null, because samples of several tasks are not one random sample"`
}

// EvaluatorVariant holds the statistics of one evaluator's verdicts on one variant.
type EvaluatorVariant struct {
	Number int `json:"number" example:"1"`
	Verdicts
	report.Spent
}

type statisticsOutput struct {
	Body struct {
		IsFinal    bool                  `json:"is_final" doc:"False while a launch is active, because results may still change"`
		Variants   []variantStatistics   `json:"variants"`
		Evaluators []evaluatorStatistics `json:"evaluators" doc:"Statistics of each evaluator, in the order of the task's evaluators"`
		// Reliability is nil if the task has no model that groups answers, or if nobody has grouped answers that the model
		// grouped.
		Reliability *meaning.Reliability `json:"meaning_reliability" doc:"Agreement between the groupings of the task's meaning_model and people's groupings; null if people have not grouped any answers that the model grouped"`
		// Preferences says, for each pair of variants whose answers people compare, which variant they prefer.
		Preferences []review.Standing    `json:"preferences" nullable:"false" doc:"Which of two variants people prefer without knowing whose answer is whose, for each two variants of which pairs were drawn"`
		Reasons     []review.ReasonCount `json:"reasons" nullable:"false" doc:"Reasons of people's verdicts on questions, most frequent first"`
		Ratings     []review.Rated       `json:"ratings" nullable:"false" doc:"People's ratings of questions, for each dimension"`
		ItemsShared int                  `json:"items_shared" doc:"Number of questions that all variants have" example:"100"`
		Slices      []slice              `json:"slices,omitempty" doc:"With by: statistics for each value of the column, most frequent values first"`
	}
}

type statisticsInput struct {
	TaskPath
	IncludeDefaults bool   `query:"include_defaults" doc:"true counts the default ratings, which replace ratings that a judge failed to give"`
	By              string `query:"by" doc:"Column of the dataset; slices then holds statistics for each of its values" example:"category"`
}

func (h *handler) getStatistics(ctx context.Context, input *statisticsInput) (*statisticsOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	results := report.New(h.Store)
	var (
		numbers report.Numbers
		judges  map[int]report.JudgeNumbers
		fits    map[int]review.Fit
	)
	group, limited := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		numbers, err = h.numbersOf(limited, task, input.By, input.IncludeDefaults)
		return err
	})
	group.Go(func() (err error) { judges, err = results.Judges(limited, task); return err })
	group.Go(func() (err error) { fits, err = review.New(h.Store).Fits(limited, task); return err })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	output := &statisticsOutput{}
	body := &output.Body
	if body.Reasons, err = review.New(h.Store).ReasonCounts(ctx, task.ID); err != nil {
		return nil, err
	}
	if body.Ratings, err = review.New(h.Store).Rated(ctx, task.ID); err != nil {
		return nil, err
	}
	if body.Preferences, err = review.New(h.Store).Standings(ctx, task.ID); err != nil {
		return nil, err
	}
	body.IsFinal, body.ItemsShared, body.Slices = !task.Status.IsActive(), task.TotalItems, newSlices(numbers.Slices)
	for _, one := range numbers.Variants {
		body.Variants = append(body.Variants, newVariantStatistics(one, numbers.Levels[one.Number],
			numbers.FactsDiffer[one.Number], numbers.Passes[one.Number]))
	}
	if body.Reliability, err = reliabilityOf(ctx, h.Store, task); err != nil {
		return nil, err
	}
	body.Evaluators, err = h.evaluatorsOf(ctx, task, input.IncludeDefaults, judges, fits)
	return output, err
}

// readAtOnce is the maximum number of queries for evaluators' statistics that run at the same time.
const readAtOnce = 4

// evaluatorsOf returns the statistics of a task's evaluators, in their order. judges and fits are keyed by the
// evaluators' numbers.
func (h *handler) evaluatorsOf(ctx context.Context, task db.Task, withDefaults bool,
	judges map[int]report.JudgeNumbers, fits map[int]review.Fit) ([]evaluatorStatistics, error) {
	all := make([]evaluatorStatistics, len(task.Evaluators))
	group, limited := errgroup.WithContext(ctx)
	group.SetLimit(readAtOnce)
	for n, evaluator := range task.Evaluators {
		one := &all[n]
		*one = evaluatorStatistics{TaskEvaluator: newEvaluator(evaluator), People: fits[evaluator.Number]}
		if scale := judges[evaluator.Number].Scale; scale > 0 {
			one.ScaleSuspect = &scale
		}
		group.Go(func() (err error) {
			one.Noise, err = reading.New(h.Store, h.Tasks.Assets).Noise(limited, task, evaluator)
			return err
		})
		group.Go(func() (err error) {
			one.Record, err = review.New(h.Store).Record(limited, task.ProjectID, evaluator.EvaluatorID, evaluator.Version)
			return err
		})
		group.Go(func() error {
			own, err := report.New(h.Store).PassStatisticsOf(limited, task, evaluator, withDefaults)
			for _, variant := range task.Variants {
				one.Variants = append(one.Variants, EvaluatorVariant{variant.Number, Verdicts{own[variant.Number]},
					judges[evaluator.Number].Variants[variant.Number]})
			}
			return err
		})
	}
	return all, group.Wait()
}
