package tasks

import (
	"fmt"
	"maps"

	"github.com/google/uuid"

	"wending/db"
	"wending/jobs/agent"
	"wending/jobs/agent/guard"
	"wending/jobs/agent/protocol"
)

// NewTarget is a target of a new task, with its secrets.
type NewTarget struct {
	db.Target
	Secrets Target
}

// AddHeaders adds headers to the target's own.
func (t *NewTarget) AddHeaders(headers map[string]string) {
	all := maps.Clone(t.Secrets.Headers)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, headers)
	t.Secrets.Headers = all
}

// KeepTicket adds the demo's ticket to a copy of a saved entry if an earlier copy of the same entry, at the same
// address, has the ticket.
func (t *NewTarget) KeepTicket(before ...NewTarget) {
	for _, one := range before {
		ticket := guard.Ticket(one.Secrets.Headers[guard.TicketHeader])
		isSame := one.LibraryID != nil && t.LibraryID != nil && *one.LibraryID == *t.LibraryID &&
			one.Secrets.URL == t.Secrets.URL
		if isSame && ticket != nil {
			t.AddHeaders(ticket)
			return
		}
	}
}

// NewPrompt is a version of a prompt for a new task's questions.
type NewPrompt struct {
	ID      uuid.UUID
	Version int
	Name    string
	// System and User are templates; if one of them is empty, the row's own text is used.
	System, User string
}

// IsPlain reports whether the task sends its questions unchanged to one typed address.
func (n New) IsPlain() bool { return len(n.Targets) == 0 && len(n.Prompts) == 0 }

// AllTargets returns the task's targets in order: saved ones, then the typed address.
func (n New) AllTargets() []NewTarget {
	targets := append([]NewTarget{}, n.Targets...)
	if n.AgentURL != "" {
		typed := NewTarget{
			Target: db.Target{Kind: db.TargetURL, Protocol: protocol.Default, RateLimit: n.RateLimit,
				RetryOn: agent.RetryTyped},
			Secrets: Target{URL: n.AgentURL, Headers: n.Headers},
		}
		if n.AgentModel != "" {
			typed.Model = &n.AgentModel
		}
		if n.Payload != nil {
			typed.Secrets.Payload = *n.Payload
		}
		targets = append(targets, typed)
	}
	for place := range targets {
		targets[place].Number = place + 1
	}
	return targets
}

// AllVariants returns the variants that the task compares: each prompt, or none, combined with each target.
func (n New) AllVariants() (variants []db.Variant) {
	targets := n.AllTargets()
	add := func(variant db.Variant, prompt string) {
		for _, target := range targets {
			variant.Number, variant.Target = len(variants)+1, target.Number
			variant.Name = variantName(prompt, target, len(targets) > 1)
			variants = append(variants, variant)
		}
	}
	if len(n.Prompts) == 0 {
		add(db.Variant{}, "")
	}
	for _, prompt := range n.Prompts {
		add(db.Variant{PromptID: &prompt.ID, PromptVersion: &prompt.Version, SystemTemplate: Given(prompt.System),
			UserTemplate: Given(prompt.User)},
			fmt.Sprintf("%s v%d", prompt.Name, prompt.Version))
	}
	return variants
}

// variantName identifies a variant by its prompt and its target. The name of a plain task's variant is empty.
func variantName(prompt string, target NewTarget, hasOthers bool) string {
	name := target.Name
	if target.Kind == db.TargetURL && (prompt != "" || hasOthers) {
		name = Host(target.Secrets.URL)
	}
	switch {
	case prompt == "":
		return name
	case name == "":
		return prompt
	}
	return prompt + " × " + name
}

// Given returns a pointer to a text, or nil for an empty text.
func Given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// VariantCount returns how many variants the task has.
func (n New) VariantCount() int { return max(1, len(n.Prompts)) * len(n.AllTargets()) }

// Calls returns the number of calls to its targets that the task makes at its start, without retries.
func (n New) Calls() int {
	if n.Dataset == nil {
		return 0
	}
	return len(n.Dataset.Rows) * n.RunsPerItem * n.VariantCount()
}
