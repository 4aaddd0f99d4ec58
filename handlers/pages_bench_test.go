package handlers_test

import (
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/measure"
	"wending/db/report"
	"wending/handlers/reading"
	"wending/jobs/tasks"
	"wending/views/summary"
)

// pageBudget is the maximum time that a page may take on the server.
const pageBudget = 50 * time.Millisecond

// Pages with 10,000 tasks and 1,000,000 runs: forty tasks have 20,000 runs each, and the others have 20 each.
func BenchmarkPagesAtAMillionRuns(b *testing.B) {
	s := newSite(b, false)
	dbtest.Seed(b, s.tables, 9960, 4, 5)
	large := dbtest.Seed(b, s.tables, 40, 1000, 20).String()
	for _, page := range []struct{ name, path string }{
		{"list", "/tasks"}, {"list-last-page", "/tasks?page=500"}, {"list-search", "/tasks?query=task+99&status=SUCCEEDED"},
		{"results", "/tasks/" + large + "/results"}, {"results-last-page", "/tasks/" + large + "/results?page=50"},
		{"results-filter", "/tasks/" + large + "/results?filter=failed&search=9"}, {"task", "/tasks/" + large},
		{"launches", "/tasks/" + large + "/launches"},
		{"api-list", "/api/v1/evaluation-tasks"}, {"api-results", "/api/v1/evaluation-tasks/" + large + "/results"},
		{"api-task", "/api/v1/evaluation-tasks/" + large},
	} {
		b.Run(page.name, func(b *testing.B) { s.measure(b, page.path, pageBudget, "%-of-50ms") })
	}
}

// Pages of a task with 1,000 questions, 8 variants and 5 runs, judged by an evaluator.
func BenchmarkPagesOfEightVariants(b *testing.B) {
	s := newSite(b, false)
	id := s.seedEightVariants(b)
	for _, page := range []struct{ name, path string }{
		{"results", "/tasks/" + id.String() + "/results"},
		{"results-of-a-variant", "/tasks/" + id.String() + "/results?variant=3"},
		{"variants", "/tasks/" + id.String() + "/variants"},
		{"variants-sorted", "/tasks/" + id.String() + "/variants?sort=spread"},
		{"api-results", "/api/v1/evaluation-tasks/" + id.String() + "/results"},
		{"api-statistics", "/api/v1/evaluation-tasks/" + id.String() + "/statistics"},
		{"summary", "/tasks/" + id.String() + "/report"},
		{"results-not-passed", "/tasks/" + id.String() + "/results?filter=unpassed"},
		{"api-results-not-passed", "/api/v1/evaluation-tasks/" + id.String() + "/results?passed=false"},
	} {
		b.Run(page.name, func(b *testing.B) { s.measure(b, page.path, 2*pageBudget, "%-of-100ms") })
	}
}

// seedEightVariants stores a task with 1,000 questions, 8 variants and 5 runs, judged by an evaluator.
func (s *site) seedEightVariants(b *testing.B) uuid.UUID {
	b.Helper()
	id := dbtest.SeedVariants(b, s.tables, 1, 1000, 8, 5)
	for _, statement := range []string{
		`INSERT INTO task_evaluators (task_id, number, evaluator_id, version, name, kind, config) VALUES ($1, 1, gen_random_uuid(), 1, 'rule', 'exact', '{}')`,
		`UPDATE evaluation_runs SET passed = id % 3 > 0, score = CAST(id % 3 > 0 AS int) WHERE task_id = $1 AND status = 'SUCCEEDED'`,
		`INSERT INTO evaluations (run_id, evaluator, task_id, status, score, passed) SELECT id, 1, task_id, 'SUCCEEDED', score, passed FROM evaluation_runs WHERE task_id = $1 AND passed IS NOT NULL`,
	} {
		_, err := s.tables.Exec(statement, id)
		require.NoError(b, err)
	}
	_, err := s.tables.Exec(`VACUUM ANALYZE`)
	require.NoError(b, err)
	require.NoError(b, tasks.AssessTask(b.Context(), s.store, id))
	return id
}

// The time to compute the numbers of a report and of a comparison with 1,000 questions and 8 variants, also as a
// percentage of the time for plain numbers: means, standard deviations over questions, and unadjusted p-values from the
// same rows.
func BenchmarkNumbersOfEightVariants(b *testing.B) {
	s := newSite(b, false)
	ctx := b.Context()
	task, err := s.store.Task(ctx, db.AllProjects(), s.seedEightVariants(b))
	require.NoError(b, err)
	results := report.New(s.store)
	for _, clustered := range []string{"", "-in-clusters"} {
		read := func() [][]measure.ComparedQuestion {
			matrix, err := results.Matrix(ctx, task)
			require.NoError(b, err)
			if clustered != "" {
				for _, questions := range matrix {
					for n := range questions {
						questions[n].Cluster = strconv.Itoa(n / 5)
					}
				}
			}
			return matrix
		}
		b.Run("report"+clustered, func(b *testing.B) {
			ratio(b, func() { reading.Rank(task, read(), measure.Matters{}) }, func() { plainNumbers(read()) })
		})
		b.Run("comparison"+clustered, func(b *testing.B) {
			ratio(b, func() {
				matrix := read()
				comparison := measure.CompareTasks(matrix[0], matrix[1])
				require.NoError(b, results.Test(ctx, report.Side{TaskID: task.ID, Variant: 1},
					report.Side{TaskID: task.ID, Variant: 2}, comparison.Pairs))
				for _, one := range summary.MeasuresOf(true, true) {
					comparison.Change(one.Of)
				}
			}, func() {
				matrix := read()
				plainNumbers(matrix[:2])
				measure.CompareTasks(matrix[0], matrix[1]).ByRisk()
			})
		})
	}
}

// plainNumbers computes the paired differences of all pairs of variants, as if every question were independent and
// every test the only one.
func plainNumbers(matrix [][]measure.ComparedQuestion) {
	for _, one := range summary.MeasuresOf(true, true) {
		for n, a := range matrix {
			for _, b := range matrix[:n] {
				var differences []float64
				for q := range a {
					if of, other := one.Of(a[q]), one.Of(b[q]); of != nil && other != nil {
						differences = append(differences, *of-*other)
					}
				}
				if count := float64(len(differences)); count > 1 {
					mean, deviation := stat.MeanStdDev(differences, nil)
					distuv.StudentsT{Sigma: 1, Nu: count - 1}.Survival(math.Abs(mean) / (deviation / math.Sqrt(count)))
				}
			}
		}
	}
}

// ratio runs both functions alternately, and reports the median time of whole in ms, and as a percentage of plain's.
func ratio(b *testing.B, whole, plain func()) {
	b.Helper()
	var took [2][]time.Duration
	for b.Loop() {
		took = [2][]time.Duration{}
		for range 15 {
			for n, run := range []func(){whole, plain} {
				start := time.Now()
				run()
				took[n] = append(took[n], time.Since(start))
			}
		}
	}
	slices.Sort(took[0])
	slices.Sort(took[1])
	b.ReportMetric(float64(took[0][7].Microseconds())/1000, "ms")
	b.ReportMetric(100*took[0][7].Seconds()/took[1][7].Seconds(), "%-of-plain-numbers")
}

// measure requests a page twenty times and reports the median and its share of the budget.
func (s *site) measure(b *testing.B, path string, budget time.Duration, unit string) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		took = took[:0]
		for range 21 {
			start := time.Now()
			request, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
			require.NoError(b, err)
			answer, err := s.client.Do(request)
			require.NoError(b, err)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(b, err)
			require.Equal(b, http.StatusOK, answer.StatusCode)
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took[1:]) // the first request fills caches
	median := took[1:][10]
	b.ReportMetric(float64(median.Microseconds())/1000, "ms")
	b.ReportMetric(100*median.Seconds()/budget.Seconds(), unit)
}
