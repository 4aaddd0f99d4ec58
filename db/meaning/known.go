package meaning

import (
	"github.com/lib/pq"

	"wending/db/measure"
)

// Known describes how similar in meaning the answers to an item are. Its pointers are nil while this is unknown.
type Known struct {
	By *By `db:"meaning_by"`
	// MeaningLetters are like Letters, but answers that say the same thing share a letter across all variants.
	MeaningLetters   *string  `db:"meaning_letters"`
	MeaningAgreement *float64 `db:"meaning_agreement"`
	MeaningGroups    *int     `db:"meaning_groups"`
	// Unsure are the run indexes of the answers whose group is not certain; Notes has a line for each letter.
	Unsure pq.Int64Array  `db:"meaning_unsure"`
	Notes  pq.StringArray `db:"meaning_notes"`
	// HasFailed reports that the model gave no usable grouping.
	HasFailed bool `db:"meaning_default"`
	// Version counts people's groupings of the variant's answers. Reviewer made the current one; nil unless By is
	// Person.
	Version  int     `db:"meaning_version"`
	Reviewer *string `db:"meaning_reviewer"`
}

// Meaning describes which answers to a question say the same thing.
type Meaning struct {
	By By `json:"by" doc:"How the groups were determined. equal: the answers differ at most in format; model: the task's meaning_model grouped them; person: a person grouped them (over all variants: in at least one)" example:"model"`
	// IsDefault reports that the model gave no usable grouping; then there are no groups, and the question does not count.
	IsDefault bool     `json:"is_default" doc:"True if the model gave no usable grouping: there are no groups, and the question is not counted"`
	IsUnsure  bool     `json:"is_unsure" doc:"True if the group of an answer is not certain: the model's replies disagree with each other or with the facts"`
	Notes     []string `json:"notes" nullable:"false" doc:"A line for each group, which may be empty" example:"[\"30 日内答复\", \"35 日内答复\"]"`
}

// VariantMeaning describes which of one variant's answers to a question say the same thing.
type VariantMeaning struct {
	Groups [][]int `json:"groups" nullable:"false" doc:"The run_index values in each group of answers that say the same thing, in the order of the item's groups" example:"[[1, 3], [2]]"`
	Unsure []int   `json:"unsure" nullable:"false" doc:"run_index of the answers whose group is not certain"`
	// Agreement is nil if there is only one run, or if a run is missing.
	Agreement *float64 `json:"agreement" doc:"Share of pairs of runs whose answers say the same thing; null with one run or if a run is missing" example:"0.6"`
	// Version is what the next grouping by a person must state.
	Version  int     `json:"version" doc:"Number of groupings of these answers made by people, which the next one must state; 0 if there is none yet" example:"1"`
	Reviewer *string `json:"reviewer" doc:"Name of the person who grouped these answers; null if nobody did, or if the answers have changed since" example:"李雷"`
	Letters  string  `json:"letters" doc:"Like letters, but answers that say the same thing share a letter, across all variants" example:"AABAA"`
	Meaning
}

// OfVariant returns the meaning of a variant's answers; nil while it is unknown, or if the task groups no answers.
// notes are the notes on the question's groups (report.Question.Notes); groups are the indexes of the variant's
// groups in notes.
func (of Known) OfVariant(notes []string) (one *VariantMeaning, groups []int) {
	if of.By == nil && !of.HasFailed {
		return nil, nil
	}
	one = &VariantMeaning{Groups: [][]int{}, Unsure: []int{}, Agreement: of.MeaningAgreement,
		Version: of.Version, Reviewer: of.Reviewer,
		Meaning: Meaning{By: Model, IsDefault: of.HasFailed, IsUnsure: of.HasFailed, Notes: []string{}}}
	if of.HasFailed {
		return one, nil
	}
	one.By, one.Letters, one.IsUnsure = *of.By, *of.MeaningLetters, len(of.Unsure) > 0
	for _, run := range of.Unsure {
		one.Unsure = append(one.Unsure, int(run))
	}
	for n := range notes {
		letter, runs, place := measure.Letter(n), []int{}, 0
		for _, r := range one.Letters {
			if place++; string(r) == letter {
				runs = append(runs, place)
			}
		}
		if len(runs) > 0 {
			one.Groups, one.Notes, groups = append(one.Groups, runs), append(one.Notes, notes[n]), append(groups, n)
		}
	}
	return one, groups
}
