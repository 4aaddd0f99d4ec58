package gate

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// check finds mistakes that would make a judgement impossible, before the first call is made and paid for.
func (o Options) check(ctx context.Context, client Client) error {
	for _, metric := range slices.Sorted(maps.Keys(o.FailUnder)) {
		switch {
		case slices.Contains([]string{"pass_rate", "pass_rate_all", "majority_rate", "score_mean"}, metric) && !o.Spec.hasEvaluators():
			return fmt.Errorf("the limit of %s needs evaluators, and the file has none", metric)
		case slices.Contains([]string{"identical_rate", "agreement", "consensus", "similarity"}, metric) && o.Spec.Task["runs_per_item"] == 1:
			return fmt.Errorf("the limit of %s needs two runs of each question, and runs_per_item is 1", metric)
		}
	}
	for _, path := range []string{o.JUnit, o.Out} {
		if path == "" {
			continue
		}
		if folder, err := os.Stat(filepath.Dir(path)); err != nil || !folder.IsDir() {
			return fmt.Errorf("cannot write %s: the folder %s does not exist", path, filepath.Dir(path))
		}
	}
	return o.checkBaseline(ctx, client)
}

// checkBaseline asks the server whether each variant can be compared with the baseline.
func (o Options) checkBaseline(ctx context.Context, client Client) error {
	if o.Baseline == "" {
		return nil
	}
	id, _, hasVariant := strings.Cut(o.Baseline, ":")
	var task struct {
		Variants []struct{} `json:"variants"`
	}
	if err := client.call(ctx, http.MethodGet, "evaluation-tasks/"+url.PathEscape(id), "", nil, &task); err != nil {
		return fmt.Errorf("the baseline %s: %w", o.Baseline, err)
	}
	if wanted := o.Spec.variants(); !hasVariant && wanted > 1 && wanted > len(task.Variants) {
		return fmt.Errorf("the baseline %s has %d variants, but the file has %d: name one of the baseline's, as in %s:1", o.Baseline, len(task.Variants), wanted, id)
	}
	query := url.Values{"a": {o.Baseline}, "b": {o.Baseline}}
	if err := client.call(ctx, http.MethodGet, "comparison?"+query.Encode(), "", nil, nil); err != nil {
		return fmt.Errorf("the baseline %s: %w", o.Baseline, err)
	}
	return nil
}
