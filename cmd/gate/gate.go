package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Options are the settings of Run.
type Options struct {
	Spec Spec
	// Wait makes Run wait until the task has ended. Baseline, RequireFit, FailUnder, JUnit, Markdown and Out imply it.
	Wait bool
	// Baseline is the task to compare with, as <id> or <id>:<variant>; empty means none. Run fails if the result is worse
	// by more than chance explains.
	Baseline string
	// Margins are how much worse than the baseline each metric may be; metrics that are not listed have a margin of 0.
	Margins map[string]float64
	// RequireProof demands that every metric with a margin above 0 is shown not to be worse by more than its margin.
	RequireProof bool
	// RequireFit demands that every judge on which a limit or margin relies is fit to gate releases, according to people's
	// verdicts.
	RequireFit bool
	// FailUnder are the limits, keyed by metric: maximums for latency and cost, minimums for all others.
	FailUnder map[string]float64
	// Confirmation allows sensitive content to be sent, as in RefusalError; empty if nothing was confirmed.
	Confirmation string
	// JUnit, Markdown and Out are the paths of output files; empty means none. StepSummary is a file to which the Markdown
	// table is also appended.
	JUnit, Markdown, StepSummary, Out string
	// Result receives the summary, and Progress receives the progress lines. With IsTerminal one progress line is
	// rewritten in place.
	Result, Progress io.Writer
	IsTerminal       bool
	// IsLocal means that the server ends with the command, so that the task cannot be opened afterwards.
	IsLocal bool
}

// waits reports whether Run waits for the task to end.
func (o Options) waits() bool {
	return o.Wait || o.Baseline != "" || o.RequireFit ||
		len(o.FailUnder) > 0 || o.JUnit != "" || o.Markdown != "" || o.Out != ""
}

// ErrBelow means that the task did not pass: a limit was not met, the task is worse than the baseline by more than
// chance explains, RequireProof is set and a loss beyond a margin cannot be ruled out, or RequireFit is set and a judge
// is not fit.
var ErrBelow = errors.New("did not pass")

// Run runs an evaluation. It returns ErrBelow if the evaluation did not pass; any other error means that it could not
// be completed.
func Run(ctx context.Context, client Client, o Options) error {
	if err := o.check(ctx, client); err != nil {
		return err
	}
	id, err := client.Create(ctx, o.Spec, o.Confirmation)
	if err != nil {
		return err
	}
	if !o.IsLocal {
		_, _ = fmt.Fprintf(o.Result, "task %s\n%s/tasks/%s\n", id, client.Server, id)
	}
	if !o.waits() {
		return nil
	}
	last, err := o.await(ctx, client, id)
	if err != nil {
		return err
	}
	report, err := client.read(ctx, id, o.Baseline)
	if err != nil {
		return err
	}
	report.RunsPerItem = last.RunsPerItem
	report.Name, _ = o.Spec.Task["task_name"].(string)
	if !o.IsLocal {
		report.URL = client.Server + "/tasks/" + id
	}
	checks := append(report.limits(o.FailUnder), report.losses(o.Margins, o.RequireProof)...)
	if err := o.writeFiles(ctx, client, id, report, checks); err != nil {
		return err
	}
	report.write(o.Result, checks)
	unfit := report.unfit(o.FailUnder, o.Margins)
	for _, warning := range unfit {
		_, _ = fmt.Fprintln(o.Result, "warning: "+warning)
	}
	switch {
	case last.Status != "SUCCEEDED":
		return fmt.Errorf("the task ended as %s%s", last.Status, because(last))
	case last.Statistics.Succeeded == 0:
		return fmt.Errorf("no call succeeded: %s", codes(last.Statistics.ErrorCodes))
	case !passed(checks):
		return fmt.Errorf("%w: %d of %d checks failed", ErrBelow, failures(checks), len(checks))
	case o.RequireFit && len(unfit) > 0:
		return fmt.Errorf("%w: %s", ErrBelow, unfit[0])
	}
	return nil
}

// writeFiles writes the reports that were asked for.
func (o Options) writeFiles(ctx context.Context, client Client, id string, r report, checks []check) error {
	if o.Out != "" {
		if err := client.Download(ctx, id, o.Out); err != nil {
			return err
		}
	}
	if o.JUnit != "" {
		if err := writeFile(o.JUnit, func(w io.Writer) error { return writeJUnit(w, r, checks) }); err != nil {
			return err
		}
	}
	if o.Markdown == "" {
		return nil
	}
	table := r.markdown(checks)
	if err := writeFile(o.Markdown, func(w io.Writer) error {
		_, err := io.WriteString(w, table)
		return err
	}); err != nil {
		return err
	}
	if o.StepSummary == "" {
		return nil
	}
	return appendFile(o.StepSummary, table)
}

func because(p Progress) string {
	switch {
	case p.Failure != nil:
		return ": " + *p.Failure
	case p.StopReason != nil && *p.StopReason != "":
		return ": " + *p.StopReason
	}
	return ""
}

func codes(counts map[string]int) string {
	var list []string
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s × %d", code, counts[code]))
	}
	return strings.Join(list, ", ")
}

// quiet is the time between progress lines if they cannot be rewritten in place.
const quiet = 10 * time.Second

// await waits for the task's end and prints its progress.
func (o Options) await(ctx context.Context, client Client, id string) (Progress, error) {
	var said time.Time
	last, err := client.Await(ctx, id, func(p Progress) {
		line := fmt.Sprintf("%s %d/%d runs, %d failed", p.Status, p.Statistics.Runs, p.TotalRuns,
			p.Statistics.Failed+p.Statistics.TimedOut)
		if p.Statistics.Runs == p.TotalRuns && p.Statistics.JudgeMissing > 0 {
			line += fmt.Sprintf(", %d to judge", p.Statistics.JudgeMissing)
		}
		switch {
		case o.IsTerminal:
			_, _ = fmt.Fprintf(o.Progress, "\r\x1b[K%s", line)
		case !p.IsActive() || time.Since(said) >= quiet:
			said = time.Now()
			_, _ = fmt.Fprintln(o.Progress, line)
		}
	})
	if o.IsTerminal {
		_, _ = fmt.Fprintln(o.Progress)
	}
	return last, err
}
