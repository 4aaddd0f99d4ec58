package review

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"
)

// RatingCount is how many ratings on a dimension have the same value.
type RatingCount struct {
	Value any `json:"value" doc:"A choice, or a number" example:"4"`
	Count int `json:"count" example:"12"`
}

// Rated summarises people's ratings of a task's questions on one dimension.
type Rated struct {
	Dimension string `json:"dimension" example:"语气"`
	N         int    `json:"n" doc:"Number of ratings" example:"40"`
	// Mean is nil for a dimension with choices.
	Mean   *float64      `json:"mean" doc:"Mean of the numbers; null for a dimension with choices" example:"4.2"`
	Counts []RatingCount `json:"counts" nullable:"false" doc:"Ratings by value: choices in their order, numbers from the lowest"`
	// Alpha is Krippendorff's α over the Units questions and variants that at least two people have rated.
	Alpha *float64 `json:"alpha" doc:"Krippendorff's α: for numbers with squared distances; null if fewer than two people rated the same question, or all ratings are the same" example:"0.71"`
	Units int      `json:"units" doc:"Questions and variants that at least two people have rated" example:"18"`
}

// Rated summarises the ratings of a task's questions: a summary for each dimension of its project, and for each earlier
// one that has ratings.
func (r Reviews) Rated(ctx context.Context, taskID uuid.UUID) ([]Rated, error) {
	rubric, err := r.RubricOf(ctx, taskID)
	if err != nil {
		return nil, err
	}
	all, err := r.List(ctx, taskID, "", "")
	return append([]Rated{}, RatedBy(rubric.Dimensions, all)...), err
}

// RatedBy summarises the ratings in reviews of questions: the given dimensions first, in their order, and then by name
// those that only the ratings have. Reviews of single answers do not count.
func RatedBy(dimensions Dimensions, reviews []Review) (rated []Rated) {
	type unit struct {
		question string
		variant  int
	}
	values := map[string]map[unit][]any{}
	for _, one := range reviews {
		for name, value := range one.Ratings {
			if one.RunIndex != nil {
				continue
			}
			if values[name] == nil {
				values[name] = map[unit][]any{}
			}
			at := unit{one.QuestionID, one.Variant}
			values[name][at] = append(values[name][at], value)
		}
	}
	for _, name := range dimensions.NamesWith(reviews) {
		var units [][]any
		for _, ofUnit := range values[name] {
			units = append(units, ofUnit)
		}
		dimension, _ := dimensions.Named(name)
		rated = append(rated, summarise(name, dimension.Choices, units))
	}
	return rated
}

// NamesWith returns the names of the dimensions, in their order, and then the names of those that only the ratings in
// reviews have.
func (d Dimensions) NamesWith(reviews []Review) (names []string) {
	names = d.Names()
	known := len(names)
	for _, one := range reviews {
		for name := range one.Ratings {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names[known:])
	return names
}

// summarise summarises the ratings on a dimension; each unit holds those on the same answers.
func summarise(name string, choices []string, units [][]any) Rated {
	rated := Rated{Dimension: name, Counts: []RatingCount{}}
	counts, sum, numbers := map[any]int{}, 0.0, 0
	ofNumbers, ofChoices := make([][]float64, len(units)), make([][]any, len(units))
	for n, unit := range units {
		for _, value := range unit {
			counts[value]++
			rated.N++
			ofChoices[n] = append(ofChoices[n], value)
			if number, isNumber := value.(float64); isNumber {
				sum += number
				numbers++
				ofNumbers[n] = append(ofNumbers[n], number)
			}
		}
	}
	for value, count := range counts {
		rated.Counts = append(rated.Counts, RatingCount{value, count})
	}
	slices.SortFunc(rated.Counts, func(a, b RatingCount) int {
		x, _ := a.Value.(float64)
		y, _ := b.Value.(float64)
		left, right := RatingText(a.Value), RatingText(b.Value)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(slices.Index(choices, left), slices.Index(choices, right)),
			cmp.Compare(left, right))
	})
	if numbers > 0 && numbers == rated.N {
		mean := sum / float64(numbers)
		rated.Mean = &mean
		rated.Alpha, rated.Units = Alpha(ofNumbers, Squared)
		return rated
	}
	rated.Alpha, rated.Units = Alpha(ofChoices, Nominal[any])
	return rated
}
