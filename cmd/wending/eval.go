package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wending/cmd/gate"
)

// evalCommand runs an evaluation from a file, unattended.
type evalCommand struct {
	File         string   `short:"f" name:"file" required:"" placeholder:"task.yaml" help:"The evaluation: the task fields of the API, plus dataset_file."`
	Server       string   `from:"WENDING_SERVER" default:"http://127.0.0.1:8080" help:"Server to run it on ($WENDING_SERVER)."`
	Token        string   `from:"WENDING_TOKEN" placeholder:"wnd_…" help:"Token, if the server requires sign-in; set it in the environment to keep it out of the list of processes ($WENDING_TOKEN)."`
	Local        bool     `help:"Run it without a server, in a temporary folder that is removed at the end."`
	Wait         bool     `help:"Wait until it has ended; implied by --local and the options below."`
	Baseline     string   `placeholder:"TASK" help:"Fail if a variant is worse than this task beyond chance: <id> or <id>:<variant>."`
	Margin       []string `placeholder:"metric=value" help:"How much worse a metric may be than in the baseline, such as agreement=0.05. May be repeated."`
	RequireProof bool     `help:"Also fail unless the comparison shows that no metric with a margin is worse by its margin."`
	RequireFit   bool     `help:"Also fail if a limit or margin relies on a judge that is not known to be fit to gate releases (κ with people of at least 0.7)."`
	FailUnder    []string `placeholder:"metric=value" help:"Fail if a variant is below a limit, such as agreement=0.8, pass_rate=90% or item_pass=4/5 (of every question), or above one: latency_p90_ms=2000, cost=0.5. May be repeated."`
	Confirm      string   `name:"confirm-sensitive" placeholder:"CONFIRMATION" help:"Send content that the project calls sensitive: the confirmation that the refusal named, which holds for the same content only."`
	JUnit        string   `name:"junit" placeholder:"FILE" help:"Write a JUnit report for CI servers, with one case per question."`
	Markdown     string   `placeholder:"FILE" help:"Write a table for a merge request; it is also appended to $GITHUB_STEP_SUMMARY."`
	Out          string   `placeholder:"FILE.csv|xlsx|jsonl|html" help:"Write the report."`
}

// exitError ends the program with a code after printing its text, if there is any.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }

// Run runs the evaluation. It exits with 0 if the evaluation passed, 1 if it did not pass, and 2 if it could not be
// completed.
func (c evalCommand) Run(ctx context.Context, s *Settings, log *slog.Logger, stdout io.Writer,
	stderr errorWriter) error {
	err := c.run(ctx, s, log, stdout, stderr)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gate.ErrBelow):
		return &exitError{1, err}
	}
	return &exitError{2, err}
}

func (c evalCommand) run(ctx context.Context, s *Settings, log *slog.Logger, stdout io.Writer,
	stderr errorWriter) error {
	spec, err := gate.ReadSpec(c.File, os.LookupEnv)
	if err != nil {
		return err
	}
	options, err := c.options(spec, stdout, stderr)
	if err != nil {
		return err
	}
	client := gate.Client{Server: strings.TrimRight(c.Server, "/"), HTTP: &http.Client{}, Token: c.Token}
	if !c.Local {
		return gate.Run(ctx, client, options)
	}
	if options.Baseline != "" {
		return errors.New("--baseline names a task on a server, but --local starts without any tasks")
	}
	own := *s
	if _, isSet := spec.Task["rate_limit"]; !isSet && own.RateLimit != "unlimited" {
		_, _ = fmt.Fprintf(stderr, "calls are limited to %s for each agent: set rate_limit in %s to change that\n",
			own.RateLimit, c.File)
	}
	if lanes, isSet := spec.Task["concurrency"].(int); isSet {
		own.Concurrency = max(own.Concurrency, lanes)
	}
	if own.LogLevel == "info" { // the progress is what matters here, not the server's log
		own.LogLevel = "warn"
		log = newLogger(stderr, own)
	}
	return onOwnServers(ctx, own, log, func(ctx context.Context, address string) error {
		client.Server, options.IsLocal = address, true
		return gate.Run(ctx, client, options)
	})
}

// options merges the file's limits with the command line's.
func (c evalCommand) options(spec gate.Spec, stdout io.Writer, stderr errorWriter) (gate.Options, error) {
	options := gate.Options{
		Spec: spec, Wait: c.Wait || c.Local, Baseline: cmp.Or(c.Baseline, spec.Baseline), Margins: maps.Clone(spec.Margins),
		RequireProof: c.RequireProof, RequireFit: c.RequireFit, Confirmation: c.Confirm,
		FailUnder: maps.Clone(spec.FailUnder), JUnit: c.JUnit, Markdown: c.Markdown,
		StepSummary: os.Getenv("GITHUB_STEP_SUMMARY"), Out: c.Out,
		Result: stdout, Progress: stderr, IsTerminal: stderr.isTerminal(),
	}
	for _, text := range c.FailUnder {
		metric, value, err := gate.ParseLimit(text)
		if err != nil {
			return options, fmt.Errorf("--fail-under: %w", err)
		}
		options.FailUnder[metric] = value
	}
	for _, text := range c.Margin {
		metric, value, err := gate.ParseMargin(text)
		if err != nil {
			return options, fmt.Errorf("--margin: %w", err)
		}
		options.Margins[metric] = value
	}
	if c.Out != "" && !slices.Contains([]string{".csv", ".xlsx", ".jsonl", ".html"},
		strings.ToLower(filepath.Ext(c.Out))) {
		return options, fmt.Errorf("--out %s: the file must end in .csv, .xlsx, .jsonl or .html", c.Out)
	}
	return options, nil
}

// onOwnServers calls the function work with a temporary server, which is removed afterwards with all its data.
func onOwnServers(ctx context.Context, own Settings, log *slog.Logger,
	work func(ctx context.Context, address string) error) (err error) {
	folder, err := os.MkdirTemp("", "wending-eval-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := os.Chmod(folder, 0o755); err != nil { //nolint:gosec // PostgreSQL may run under its own account
		return err
	}
	own.Auth, own.TLSCert, own.TLSKey = "off", "", ""
	own.DataDir, own.ListenAddr, own.DatabaseURL, own.DirectURL, own.RedisURL = folder, "127.0.0.1:0", "", "", ""
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := upCommand{}.Run(ctx, &own, log, writer)
		_ = writer.Close()
		ended <- err
	}()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		return errors.Join(errors.New("the temporary server did not start"), <-ended)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	address := strings.TrimPrefix(strings.TrimSpace(line), "wending: ")
	err = work(ctx, address)
	cancel()
	return errors.Join(err, <-ended)
}
