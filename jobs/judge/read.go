package judge

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"wending/jobs/wire"
)

// CodeUnreadable marks ratings that could not be read from what the model said.
const CodeUnreadable = "JUDGE_UNREADABLE"

// Vote is what a model said of an answer once.
type Vote struct {
	// Ratings are from 0 to 100, by the dimensions; a dimension that the model left out is missing.
	Ratings map[string]float64
	Reason  string
}

// overall is the rating that decides: that of Overall, or else the mean.
func (v Vote) overall() float64 {
	if rating, isThere := v.Ratings[Overall]; isThere {
		return rating
	}
	sum := 0.0
	for _, rating := range v.Ratings {
		sum += rating
	}
	return sum / float64(len(v.Ratings))
}

// Read reads a model's ratings: one JSON object, which may stand in prose or in a fence, may have numbers as texts and commas
// too many. Of several objects the last one counts that has a rating: models quote before they conclude. A number that is not
// from 0 to 100 is no rating. isRead is false if there is no rating at all.
func (j Judge) Read(text string) (vote Vote, isRead bool) {
	for _, object := range objects(text) {
		if found := j.ratings(object); len(found.Ratings) > 0 {
			vote, isRead = found, true
		}
	}
	return vote, isRead
}

func (j Judge) ratings(object wire.Value) Vote {
	vote := Vote{Ratings: map[string]float64{}}
	for _, field := range object.Fields {
		name := strings.ToLower(strings.TrimSpace(field.Name))
		if name == "reason" && field.Value.Kind == wire.String {
			vote.Reason = string(field.Value.Text)
			continue
		}
		if field.Value.Kind == wire.Object { // some put the ratings into an object of their own
			maps.Copy(vote.Ratings, j.ratings(field.Value).Ratings)
			continue
		}
		for _, dimension := range j.Dimensions {
			if strings.ToLower(dimension) != name {
				continue
			}
			if rating, isRating := ratingOf(field.Value); isRating {
				vote.Ratings[dimension] = rating
			}
		}
	}
	return vote
}

// rated is a rating that is written as a text: 85, 85/100, 85分, 85 %.
var rated = regexp.MustCompile(`^\s*(\d+(?:\.\d+)?)\s*(?:/\s*100|分|%|points?)?\s*$`)

func ratingOf(value wire.Value) (rating float64, isRating bool) {
	switch value.Kind {
	case wire.Number:
		if json.Unmarshal(value.Text, &rating) != nil {
			return 0, false
		}
	case wire.String:
		match := rated.FindStringSubmatch(string(value.Text))
		if match == nil {
			return 0, false
		}
		rating, _ = strconv.ParseFloat(match[1], 64)
	default:
		return 0, false
	}
	return rating, rating >= 0 && rating <= MaxRating
}

// maxRead is how many of the last bytes of a text are read, maxObjects how many braces are tried: a text of braces alone must
// not take long.
const (
	maxRead    = 200_000
	maxObjects = 200
)

// trailing are commas before the end of an object or a list.
var trailing = regexp.MustCompile(`,\s*([}\]])`)

// objects returns the JSON objects in a text that are not within another, in their order.
func objects(text string) (found []wire.Value) {
	text = text[max(0, len(text)-maxRead):]
	for tried := 0; tried < maxObjects; tried++ {
		begin := strings.IndexByte(text, '{')
		if begin < 0 {
			return found
		}
		end := endOf(text[begin:])
		if end < 0 { // it does not end: perhaps another one begins within it
			text = text[begin+1:]
			continue
		}
		object := text[begin : begin+end]
		value, isJSON := wire.Parse([]byte(object))
		if !isJSON {
			value, isJSON = wire.Parse([]byte(trailing.ReplaceAllString(object, "$1")))
		}
		if !isJSON || value.Kind != wire.Object {
			text = text[begin+1:]
			continue
		}
		found, text = append(found, value), text[begin+end:]
	}
	return found
}

// endOf returns the length of the object that text begins with; -1 if it does not end.
func endOf(text string) int {
	depth, isText, isEscaped := 0, false, false
	for n := range len(text) {
		switch c := text[n]; {
		case isEscaped:
			isEscaped = false
		case isText && c == '\\':
			isEscaped = true
		case c == '"':
			isText = !isText
		case isText:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return n + 1
			}
		}
	}
	return -1
}

// Verdict is what a judge's votes come to.
type Verdict struct {
	// Ratings are the medians of the dimensions that were rated, from 0 to 100.
	Ratings map[string]float64
	// Score is Overall, or the mean of the dimensions without it, from 0 to 1. Passed is nil for defaults.
	Score  float64
	Passed *bool
	// Reason is that of the vote whose overall rating is nearest to the median.
	Reason string
	// IsDefault reports that no vote could be read: every dimension is DefaultRating.
	IsDefault bool
}

// Decide puts the votes that could be read together.
func (j Judge) Decide(votes []Vote) Verdict {
	if len(votes) == 0 {
		verdict := Verdict{Ratings: map[string]float64{}, Score: float64(DefaultRating) / MaxRating, IsDefault: true}
		for _, dimension := range j.Dimensions {
			verdict.Ratings[dimension] = DefaultRating
		}
		return verdict
	}
	median := Vote{Ratings: map[string]float64{}}
	for _, dimension := range j.Dimensions {
		var ratings []float64
		for _, vote := range votes {
			if rating, isThere := vote.Ratings[dimension]; isThere {
				ratings = append(ratings, rating)
			}
		}
		if len(ratings) > 0 {
			median.Ratings[dimension] = medianOf(ratings)
		}
	}
	overall := median.overall()
	passed := overall >= *j.Threshold
	nearest := slices.MinFunc(votes, func(a, b Vote) int {
		return cmp.Compare(math.Abs(a.overall()-overall), math.Abs(b.overall()-overall))
	})
	return Verdict{Ratings: median.Ratings, Score: overall / MaxRating, Passed: &passed, Reason: nearest.Reason}
}

func medianOf(numbers []float64) float64 {
	slices.Sort(numbers)
	middle := len(numbers) / 2
	if len(numbers)%2 == 1 {
		return numbers[middle]
	}
	return (numbers[middle-1] + numbers[middle]) / 2
}
