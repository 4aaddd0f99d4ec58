package measure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
)

// simulated is one line of the table: the share of repetitions in which something happens, and the accepted range.
type simulated struct {
	zh, en      string
	share       float64
	least, most float64
	// written formats the share; nil means as a percentage.
	written func(float64) string
}

const simulationSeed = 29

// repetitions is how often each case is simulated: `make simulate` uses the full number.
func repetitions() int {
	if os.Getenv("WENDING_SIMULATE") != "" {
		return 4000
	}
	return 200
}

// shareOf returns the share of repetitions in which happens returns true, using all processors. Every repetition has
// its own generator, so the result does not depend on the number of processors.
func shareOf(happens func(*rand.Rand) bool) float64 {
	total := repetitions()
	hits := make([]int, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for worker := range hits {
		group.Go(func() {
			for n := worker; n < total; n += len(hits) {
				if happens(rand.New(rand.NewPCG(simulationSeed, uint64(n)))) {
					hits[worker]++
				}
			}
		})
	}
	group.Wait()
	sum := 0
	for _, count := range hits {
		sum += count
	}
	return float64(sum) / float64(total)
}

// chances returns the chances of passing for n questions: their mean is rate, and the verdicts on two runs of one
// question have the correlation rho.
func chances(random *rand.Rand, n int, rate, rho float64) []float64 {
	list := make([]float64, n)
	beta := distuv.Beta{Alpha: rate * (1/max(rho, 1e-9) - 1), Beta: (1 - rate) * (1/max(rho, 1e-9) - 1), Src: random}
	for i := range list {
		if list[i] = rate; rho > 0 {
			list[i] = beta.Rand()
		}
	}
	return list
}

func passes(random *rand.Rand, chance float64, runs int) (count int) {
	for range runs {
		if random.Float64() < chance {
			count++
		}
	}
	return count
}

// coverage is how often the interval of a pass rate covers the rate. Questions come in clusters of the given size,
// which share their chance of passing.
func coverage(rate float64, clusters, size, runs int, rho float64) float64 {
	return shareOf(func(random *rand.Rand) bool {
		var shares Sample
		var last Judged
		for n, chance := range chances(random, clusters, rate, rho) {
			for range size {
				last = Judged{Judged: runs, Passes: passes(random, chance, runs)}
				shares.Add(*last.Share(), "c"+strconv.Itoa(n))
			}
		}
		interval := passInterval(shares, last)
		return interval[0] <= rate && rate <= interval[1]
	})
}

// equalVariants returns results of variants that do not differ: the same questions, with independent runs.
func equalVariants(random *rand.Rand, variants, questions, runs int) [][]ComparedQuestion {
	list := make([][]ComparedQuestion, variants)
	for n, chance := range chances(random, questions, 0.8, 0.5) {
		for v := range list {
			count := passes(random, chance, runs)
			share, failures := float64(count)/float64(runs), float64(runs-count)
			agreement := (float64(count)*float64(count-1) + failures*(failures-1)) / float64(runs*(runs-1))
			latency := 1000 * math.Exp(random.NormFloat64()/2)
			success := float64(passes(random, 0.98, runs)) / float64(runs)
			id := strconv.Itoa(n)
			list[v] = append(list[v], ComparedQuestion{
				ID: int64(n), QuestionID: id, Text: id, PassShare: &share, Agreement: &agreement, LatencyMS: &latency,
				SuccessRate: &success,
			})
		}
	}
	return list
}

var simulatedNumbers = []By{
	{Of: func(q ComparedQuestion) *float64 {
		return q.PassShare
	}}, {Of: func(q ComparedQuestion) *float64 { return q.Agreement }},
	{Of: func(q ComparedQuestion) *float64 {
		return q.SuccessRate
	}}, {Of: func(q ComparedQuestion) *float64 { return q.LatencyMS }, IsLessBetter: true},
}

// falseStars is the share of reports on equal variants in which one variant is reported as better than another.
func falseStars(variants int) float64 {
	return shareOf(func(random *rand.Rand) bool {
		for _, ranking := range Rank(equalVariants(random, variants, 60, 5), simulatedNumbers, Matters{}) {
			if ranking != nil && len(ranking.Worse) > 0 {
				return true
			}
		}
		return false
	})
}

// falseWorse is the share of gates in which one of several variants, all equal to the baseline, is found worse.
func falseWorse(variants int) float64 {
	return shareOf(func(random *rand.Rand) bool {
		all := equalVariants(random, variants+1, 60, 5)
		var tests []GateTest
		for _, questions := range all[1:] {
			for _, by := range simulatedNumbers {
				tests = append(tests, GateTest{Change: CompareTasks(all[0], questions).Change(by.Of),
					IsLessBetter: by.IsLessBetter})
			}
		}
		for _, result := range Gate(tests) {
			if result.Verdict == IsWorse {
				return true
			}
		}
		return false
	})
}

// settledQuestions asks a question until it is settled, as an adaptive task does, but at least three times. Seven of
// ten questions always get the same answer; for the others, twenty answers are drawn, with probabilities of 70 % and 30
// %. It returns the share of questions that find the most common of the twenty answers, and the share of the twenty
// calls that were made.
func settledQuestions() (found, made float64) {
	const most = 20
	settled := SettledFrom(DefaultConfidence)
	var calls atomic.Int64
	found = shareOf(func(random *rand.Rand) bool {
		prepared := make([]int, most)
		if random.IntN(10) < 3 {
			for n := range prepared {
				prepared[n] = passes(random, 0.3, 1)
			}
		}
		var votes, all [2]int
		for n, answer := range prepared {
			first, second := max(votes[0], votes[1]), min(votes[0], votes[1])
			if n < 3 || first < settled[second] {
				votes[answer]++
				calls.Add(1)
			}
			all[answer]++
		}
		return (votes[0]-votes[1])*(all[0]-all[1]) > 0 || all[0] == all[1]
	})
	return found, float64(calls.Load()) / float64(most*repetitions())
}

// falseAlarms is the mean number of alarms over a number of nights in which nothing changes, so that only chance
// decides which questions pass.
func falseAlarms(nights int, draw func(*rand.Rand) Night) float64 {
	total := make([]int, repetitions())
	next := 0
	var lock sync.Mutex
	shareOf(func(random *rand.Rand) bool {
		list := make([]Night, LearningNights+nights)
		for n := range list {
			list[n] = draw(random)
		}
		count := 0
		for _, control := range WatchNights(list) {
			if control.IsAlarm {
				count++
			}
		}
		lock.Lock()
		defer lock.Unlock()
		total[next] = count
		next++
		return false
	})
	sum := 0
	for _, count := range total {
		sum += count
	}
	return float64(sum) / float64(len(total))
}

// nightOf simulates a night on which the questions are asked again, with the standard error that pages show.
func nightOf(questions, runs int) func(*rand.Rand) Night {
	return func(random *rand.Rand) Night {
		var shares Sample
		for n := range questions { // some questions always pass, some never, most sometimes
			shares.Add(float64(passes(random, float64(n)/float64(questions-1), runs))/float64(runs), "")
		}
		return Night{Value: *shares.Mean(), SE: *shares.SE()}
	}
}

// rareFailures simulates the success rate of a night on which nearly all calls succeed; on many nights, all do.
func rareFailures(random *rand.Rand) Night {
	questions := make([]ComparedQuestion, 120)
	for n := range questions {
		share := float64(passes(random, 0.9995, 5)) / 5
		questions[n].SuccessRate = &share
	}
	point := PointsOf(questions, nil)[MetricSuccessRate]
	return Night{Value: point.Value, SE: point.error()}
}

func simulations() (lines []simulated) {
	for _, rate := range []float64{0.5, 0.8, 0.9} {
		for _, questions := range []int{50, 200} {
			for _, rho := range []float64{0, 0.5} {
				for _, runs := range []int{1, 3, 5, 10} {
					line := simulated{
						zh: fmt.Sprintf("95%% 置信区间包含真实值：通过率 %.0f%%，%d 题 × %d 次，同题相关 %.1f", 100*rate, questions, runs, rho),
						en: fmt.Sprintf("95%% interval covers the truth: pass rate %.0f%%, %d questions × %d, correlation %.1f",
							100*rate, questions, runs, rho),
						share: coverage(rate, questions, 1, runs, rho), least: 0.93, most: 0.97,
					}
					if rate == 0.9 {
						line.least, line.most = 0.92, 1
					}
					if rate == 0.9 && questions < 200 {
						line.least = 0.9
					}
					lines = append(lines, line)
				}
			}
		}
	}
	lines = append(lines, simulated{
		zh:    "95% 置信区间包含真实值：通过率 80%，50 段对话 × 5 轮 × 3 次，同段相关 0.5",
		en:    "95% interval covers the truth: pass rate 80%, 50 conversations × 5 turns × 3, correlation 0.5",
		share: coverage(0.8, 50, 5, 3, 0.5), least: 0.93, most: 0.97,
	})
	for variants := 2; variants <= 6; variants++ {
		lines = append(lines, simulated{
			zh:    fmt.Sprintf("%d 个相同的方案，报告中有 ★ 或有一个方案优于另一个", variants),
			en:    fmt.Sprintf("a star, or a variant that is better than another, in a report of %d equal variants", variants),
			share: falseStars(variants), most: 0.05,
		})
	}
	for _, variants := range []int{1, 3} {
		lines = append(lines, simulated{
			zh:    fmt.Sprintf("%d 个与基准相同的方案，发布前评测判为变差", variants),
			en:    fmt.Sprintf("a gate finds one of %d variants, equal to the baseline, worse", variants),
			share: falseWorse(variants), most: 0.05,
		})
	}
	found, made := settledQuestions()
	lines = append(lines, simulated{
		zh:    "结果未定的题加问：得出的最常见回答与问满 20 次相同",
		en:    "adaptive runs find the most common of 20 answers",
		share: found, least: 0.98, most: 1,
	}, simulated{
		zh:    "结果未定的题加问：调用数占每题问满 20 次的比例",
		en:    "share of the 20 calls per question that adaptive runs make",
		share: made, most: 0.5,
	})
	const nights = 300
	perNight := func(share float64) string { return strconv.FormatFloat(share, 'f', 2, 64) }
	for _, questions := range []int{50, 200} {
		lines = append(lines, simulated{
			zh:    fmt.Sprintf("%d 夜没有变化（%d 题 × 5 次），告警次数", nights, questions),
			en:    fmt.Sprintf("alerts in %d nights without a change (%d questions × 5)", nights, questions),
			share: falseAlarms(nights, nightOf(questions, 5)), most: 1, written: perNight,
		})
	}
	return append(lines, simulated{
		zh: fmt.Sprintf("%d 夜没有变化（每夜误差未知），告警次数", nights),
		en: fmt.Sprintf("alerts in %d nights without a change (errors of nights unknown)", nights),
		share: falseAlarms(nights, func(random *rand.Rand) Night {
			return Night{Value: random.NormFloat64()}
		}), most: 1, written: perNight,
	}, simulated{
		zh:    fmt.Sprintf("%d 夜没有变化（120 题 × 5 次，每万次调用有 5 次失败），告警次数", nights),
		en:    fmt.Sprintf("alerts in %d nights without a change (120 questions × 5, 5 of 10,000 calls fail)", nights),
		share: falseAlarms(nights, rareFailures), most: 1, written: perNight,
	})
}

// The product's statistics keep their promises on simulated data whose true values are known. `make simulate` runs
// more repetitions and writes the table into the help.
func TestSimulations(t *testing.T) {
	t.Logf("seed %d, %d repetitions, %d processors", simulationSeed, repetitions(), runtime.GOMAXPROCS(0))
	tables := map[string]*strings.Builder{"zh-CN": {}, "en": {}}
	tables["zh-CN"].WriteString("| 情况 | 要求 | 模拟结果 |\n| --- | --- | --- |\n")
	tables["en"].WriteString("| case | aim | simulated |\n| --- | --- | --- |\n")
	for _, line := range simulations() {
		written := line.written
		if written == nil {
			written = func(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + "%" }
		}
		aim := "≤ " + written(line.most)
		switch {
		case line.least > 0 && line.most < 1:
			aim = written(line.least) + "–" + written(line.most)
		case line.least > 0:
			aim = "≥ " + written(line.least)
		case line.written == nil && line.most == 1:
			aim = "–"
		}
		t.Logf("%-90s %-12s %s", line.en, aim, written(line.share))
		fmt.Fprintf(tables["zh-CN"], "| %s | %s | %s |\n", line.zh, aim, written(line.share))
		fmt.Fprintf(tables["en"], "| %s | %s | %s |\n", line.en, aim, written(line.share))
		slack := 3.5 * math.Sqrt(0.06/float64(repetitions())) // 3.5 standard errors of a share of about 6 %
		require.GreaterOrEqual(t, line.share, line.least-slack, line.en)
		require.LessOrEqual(t, line.share, line.most+slack, line.en)
	}
	if os.Getenv("WENDING_SIMULATE") == "" {
		return
	}
	for lang, table := range tables {
		writeTable(t, "../../views/help/"+lang+"/report.md", table.String())
	}
}

// writeTable replaces the table of a chapter's section on simulations.
func writeTable(t *testing.T, path, table string) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	before, section, isThere := strings.Cut(string(content), "{#simulated}\n")
	require.True(t, isThere, path)
	begin := strings.Index(section, "|")
	end := strings.Index(section[begin:], "\n\n") + begin + 1
	require.NoError(t, os.WriteFile(path, []byte(before+"{#simulated}\n"+section[:begin]+table+section[end:]), 0o600))
}
