package library

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/measure"
	"wending/jobs/secret"
	"wending/jobs/tasks"
)

// configurationOf identifies the agents, prompts, evaluators and questions of a task, as far as they can be
// identified without its secrets.
func configurationOf(task db.Task) string {
	hash := sha256.New()
	write := func(parts ...any) { _, _ = fmt.Fprintf(hash, "%q\n", fmt.Sprint(parts...)) } // a hash accepts everything
	write(tasks.TextOf(task.ClusterBy), task.RunsPerItem, task.TotalItems, task.DatasetName)
	if task.DatasetID != nil && task.DatasetVersion != nil {
		write(*task.DatasetID, *task.DatasetVersion)
	}
	for _, target := range task.Targets {
		write(target.Kind, target.Protocol, target.URL, tasks.TextOf(target.Model), tasks.TextOf(target.Poll))
	}
	for _, variant := range task.Variants {
		write(variant.Target, tasks.TextOf(variant.SystemTemplate), tasks.TextOf(variant.UserTemplate))
	}
	for _, evaluator := range task.Evaluators {
		write(evaluator.Kind, evaluator.EvaluatorID, evaluator.Version, string(evaluator.Config))
	}
	if grouper := task.Grouper(); grouper != nil {
		write("meaning", grouper.Protocol, grouper.URL, tasks.TextOf(grouper.Model))
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// part is something that a task uses, in a form that can be compared between two copies of the task.
type part struct {
	// name is shown to people, state is everything else about the part that matters, and secrets are the secret values
	// with which it is called.
	name, state, secrets string
}

// partsOf returns the parts that a task uses, keyed by kind and by an identifier that stays the same from one copy to
// the next.
func partsOf(sealer *secret.Sealer, task db.Task) (map[measure.ConfigurationKind]map[string]part, error) {
	parts := map[measure.ConfigurationKind]map[string]part{
		measure.ConfiguredDataset: {"": {name: datasetName(task), state: fmt.Sprint(task.TotalItems)}},
		measure.ConfiguredSettings: {"": {state: fmt.Sprintf("%d %q", task.RunsPerItem,
			tasks.TextOf(task.ClusterBy))}},
		measure.ConfiguredPrompt: {}, measure.ConfiguredEvaluator: {},
	}
	if task.DatasetID != nil { // the name of a saved dataset's file may change
		parts[measure.ConfiguredDataset][""] = part{name: datasetName(task)}
	}
	for kind, targets := range map[measure.ConfigurationKind][]db.Target{
		measure.ConfiguredTarget: task.Targets, measure.ConfiguredJudge: task.Judges,
	} {
		parts[kind] = map[string]part{}
		for _, target := range targets {
			one := part{name: target.Name, state: fmt.Sprintf("%q", []string{string(target.Kind), target.Protocol,
				target.URL, tasks.TextOf(target.Model), tasks.TextOf(target.Poll)})}
			if one.name == "" {
				one.name = tasks.Host(target.URL)
			}
			opened, err := tasks.Open(sealer, target)
			if err != nil && !errors.Is(err, secret.ErrKey) {
				return nil, err
			}
			one.secrets = secretsText(opened)
			parts[kind][partID(target.LibraryID, target.Number)] = one
		}
	}
	for _, variant := range task.Variants {
		if variant.PromptID == nil || variant.Target != 1 {
			continue
		}
		name, _, _ := strings.Cut(variant.Name, " × ")
		parts[measure.ConfiguredPrompt][variant.PromptID.String()+promptPlace(task, variant)] = part{name: name,
			state: fmt.Sprintf("%q %q", tasks.TextOf(variant.SystemTemplate), tasks.TextOf(variant.UserTemplate))}
	}
	for _, evaluator := range task.Evaluators {
		parts[measure.ConfiguredEvaluator][evaluator.EvaluatorID.String()] = part{
			name: fmt.Sprintf("%s v%d", evaluator.Name, evaluator.Version), state: string(evaluator.Config)}
	}
	return parts, nil
}

// secretsText returns the secret values with which a target is called, in a form that can be compared but must not be
// stored.
func secretsText(t tasks.Target) string {
	_, query, _ := strings.Cut(t.URL, "?")
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		_, _ = fmt.Fprintf(&text, "%q: %q\n", name, t.Headers[name])
	}
	_, _ = fmt.Fprintf(&text, "%q %q %q", query, t.Payload, t.Template)
	return text.String()
}

// partID identifies a target: by its entry in the library or, without one, by its number.
func partID(id *uuid.UUID, number int) string {
	if id == nil {
		return strconv.Itoa(number)
	}
	return id.String()
}

// promptPlace returns a suffix for the id of a variant's prompt, which distinguishes several versions of one prompt
// within a task.
func promptPlace(task db.Task, of db.Variant) string {
	place := 0
	for _, variant := range task.Variants {
		if variant.Number == of.Number {
			break
		}
		if variant.Target == 1 && variant.PromptID != nil && *variant.PromptID == *of.PromptID {
			place++
		}
	}
	return "/" + strconv.Itoa(place)
}

func datasetName(task db.Task) string {
	if task.DatasetVersion == nil {
		return task.DatasetName
	}
	return fmt.Sprintf("%s v%d", task.DatasetName, *task.DatasetVersion)
}

// changedConfiguration returns what differs between two copies of a task, other than their answers.
func changedConfiguration(sealer *secret.Sealer, before, now db.Task) (changes []measure.ConfigurationChange,
	err error) {
	earlier, err := partsOf(sealer, before)
	if err != nil {
		return nil, err
	}
	later, err := partsOf(sealer, now)
	if err != nil {
		return nil, err
	}
	for _, kind := range measure.ConfigurationKinds {
		ids := map[string]bool{}
		for id := range earlier[kind] {
			ids[id] = true
		}
		for id := range later[kind] {
			ids[id] = true
		}
		for _, id := range slices.Sorted(maps.Keys(ids)) {
			a, had := earlier[kind][id]
			b, has := later[kind][id]
			change := measure.ConfigurationChange{Kind: kind, Before: a.name, Now: b.name}
			switch {
			case had && has && a == b:
				continue
			case had && has && a.state == b.state && a.name == b.name:
				change.Kind = measure.ConfiguredCredentials
			}
			changes = append(changes, change)
		}
	}
	return changes, nil
}
