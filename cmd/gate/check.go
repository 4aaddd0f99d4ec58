package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// check finds mistakes that would make it impossible to judge the result, before the first call is made and paid for.
func (o Options) check(ctx context.Context, client Client) error {
	for _, metric := range slices.Sorted(maps.Keys(o.FailUnder)) {
		if err := o.checkMetric("limit", metric); err != nil {
			return err
		}
	}
	for _, metric := range slices.Sorted(maps.Keys(o.Margins)) {
		if err := o.checkMetric("margin", metric); err != nil {
			return err
		}
	}
	if err := o.checkProof(); err != nil {
		return err
	}
	for _, path := range []string{o.JUnit, o.Markdown, o.Out} {
		if err := checkWritable(path); err != nil {
			return err
		}
	}
	if o.Markdown != "" {
		if err := checkWritable(o.StepSummary); err != nil {
			return err
		}
	}
	if err := o.checkPrices(ctx, client); err != nil {
		return err
	}
	return o.checkBaseline(ctx, client)
}

// checkPrices returns an error for a cost limit that can never be checked because prices are missing.
func (o Options) checkPrices(ctx context.Context, client Client) error {
	if _, hasLimit := o.FailUnder["cost"]; !hasLimit {
		return nil
	}
	if _, isTyped := o.Spec.Task["agent_api_url"]; isTyped {
		return errors.New("a cost limit needs prices, which an agent_api_url does not have: save the agent with " +
			"its prices, and name it in agents")
	}
	for _, kind := range []string{"models", "agents"} {
		ids, _ := o.Spec.Task[kind].([]string)
		for _, id := range ids {
			var entry struct {
				Name        string  `json:"name"`
				InputPrice  *string `json:"input_price"`
				OutputPrice *string `json:"output_price"`
			}
			if err := client.call(ctx, http.MethodGet, kind+"/"+url.PathEscape(id), "", nil, &entry); err != nil {
				return fmt.Errorf("%s: %s: %w", kind, id, err)
			}
			if entry.InputPrice == nil || entry.OutputPrice == nil {
				return fmt.Errorf("a cost limit needs prices, and %s has none", entry.Name)
			}
		}
		for _, entry := range o.Spec.Inline[kind] {
			if entry["input_price"] == nil || entry["output_price"] == nil {
				return fmt.Errorf("a cost limit needs prices, and %s has none", entry["name"])
			}
		}
	}
	return nil
}

// checkMetric returns an error for a limit or margin on a metric that this task does not have.
func (o Options) checkMetric(kind, metric string) error {
	switch {
	case slices.Contains([]string{"pass_rate", "pass_rate_all", "majority_rate", "score_mean", itemPass}, metric) &&
		!o.Spec.hasEvaluators():
		return fmt.Errorf("the %s of %s needs evaluators, and the file has none", kind, metric)
	case metric == meaningAgreement && o.Spec.Task["meaning_model"] == nil:
		return fmt.Errorf("the %s of %s needs a model that groups answers, and the file has no meaning_model", kind, metric)
	case slices.Contains([]string{"identical_rate", "agreement", meaningAgreement, "consensus", "similarity"}, metric) &&
		o.Spec.Task["runs_per_item"] == 1:
		return fmt.Errorf("the %s of %s needs two runs of each question, and runs_per_item is 1", kind, metric)
	}
	return nil
}

// checkProof reports a margin without a baseline, and a required proof without a margin above 0: with a margin of 0,
// not even two equal versions could pass.
func (o Options) checkProof() error {
	switch hasMargin := slices.ContainsFunc(slices.Collect(maps.Values(o.Margins)), func(margin float64) bool {
		return margin > 0
	}); {
	case o.Baseline == "" && o.RequireProof:
		return errors.New("--require-proof needs a baseline")
	case o.Baseline == "" && len(o.Margins) > 0:
		return errors.New("a margin needs a baseline")
	case o.RequireProof && !hasMargin:
		return errors.New("--require-proof needs a margin above 0, such as margin: {agreement: 0.05}: two equal versions " +
			"could never pass without one")
	}
	return nil
}

// checkWritable returns an error if the file at path cannot be written. An empty path means that no file was requested.
func checkWritable(path string) error {
	if path == "" {
		return nil
	}
	folder := filepath.Dir(path)
	if of, err := os.Stat(folder); err != nil || !of.IsDir() {
		return fmt.Errorf("%s cannot be written: the folder %s does not exist", path, folder)
	}
	if of, err := os.Stat(path); err == nil && of.IsDir() {
		return fmt.Errorf("%s cannot be written: it is a folder", path)
	}
	probe, err := os.CreateTemp(folder, ".wending-*")
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// checkBaseline asks the server whether each variant can be compared with the baseline.
func (o Options) checkBaseline(ctx context.Context, client Client) error {
	if o.Baseline == "" {
		return nil
	}
	id, variant, hasVariant := strings.Cut(o.Baseline, ":")
	var task struct {
		Variants []struct{} `json:"variants"`
	}
	if err := client.call(ctx, http.MethodGet, "evaluation-tasks/"+url.PathEscape(id), "", nil, &task); err != nil {
		return fmt.Errorf("the baseline %s: %w", o.Baseline, err)
	}
	if number, err := strconv.Atoi(variant); hasVariant && (err != nil || number < 1 || number > len(task.Variants)) {
		return fmt.Errorf("the baseline %s: the task has no variant %s, only 1 to %d", o.Baseline, variant,
			len(task.Variants))
	}
	if wanted := o.Spec.variants(); !hasVariant && wanted > 1 && wanted > len(task.Variants) {
		return fmt.Errorf("the baseline %s has %d variants, but the file has %d: name one of its variants, as in %s:1",
			o.Baseline, len(task.Variants), wanted, id)
	}
	query := url.Values{"a": {o.Baseline}, "b": {o.Baseline}}
	var compared struct {
		Differences map[string]difference `json:"differences"`
	}
	if err := client.call(ctx, http.MethodGet, "comparison?"+query.Encode(), "", nil, &compared); err != nil {
		return fmt.Errorf("the baseline %s: %w", o.Baseline, err)
	}
	for _, w := range watches {
		if _, hasMargin := o.Margins[w.name]; hasMargin && compared.Differences[w.api].N == 0 {
			return fmt.Errorf("the margin of %s cannot be checked: the baseline %s does not have this number for any question",
				w.name, o.Baseline)
		}
	}
	return nil
}
