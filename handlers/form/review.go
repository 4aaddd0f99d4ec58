package form

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"wending/db"
	"wending/db/review"
	"wending/handlers/request"
)

// MaxReviewers is the maximum number of reviewers that a task's questions can be assigned to.
const MaxReviewers = 20

// maxReviewerLength is the maximum length, in characters, of a reviewer's name.
const maxReviewerLength = 64

// ReviewerName returns the name under which a review is stored: the account's name or, without accounts, the typed one.
func ReviewerName(ctx context.Context, typed string) (string, error) {
	if info := request.From(ctx); info.HasAccounts {
		return info.Who.Name, nil
	}
	return personName(typed)
}

// personName returns a typed name, trimmed, or a fault.
func personName(typed string) (string, error) {
	name := strings.TrimSpace(request.StorableText(typed))
	if name == "" {
		return "", request.ParameterFault("reviewer", request.NonEmpty())
	}
	if utf8.RuneCountInString(name) > maxReviewerLength {
		return "", request.ParameterFault("reviewer", request.TextUpTo(maxReviewerLength))
	}
	return name, nil
}

// maxNoteLength is the maximum length, in characters, of a note.
const maxNoteLength = 10_000

// Note returns a typed note in the form in which it is stored, or a fault if it is too long.
func Note(typed string) (string, error) {
	note := request.StorableText(typed)
	if utf8.RuneCountInString(note) > maxNoteLength {
		return "", request.ParameterFault("note", request.TextUpTo(maxNoteLength))
	}
	return note, nil
}

// StandardAnswer returns a form's corrected standard answer and the note on the correction, or a fault.
func StandardAnswer(submitted map[string]string) (answer, note string, err error) {
	answer = submitted["standard_answer"]
	note, err = Note(submitted["note"])
	if err == nil && strings.TrimSpace(answer) == "" {
		err = request.FieldFault("standard_answer", request.Required())
	}
	return answer, note, err
}

// ReviewerNames returns typed names of reviewers, trimmed and without duplicates, or a fault.
func ReviewerNames(typed []string) ([]string, error) {
	var names []string
	for _, one := range typed {
		name, err := personName(one)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > MaxReviewers {
		return nil, request.ParameterFault("reviewers", request.Between(0, MaxReviewers))
	}
	return names, nil
}

// Reasons returns typed reasons for a verdict, trimmed and without duplicates, or a fault if one is not among known.
func Reasons(typed, known []string) ([]string, error) {
	var reasons []string
	for _, one := range typed {
		reason := strings.TrimSpace(request.StorableText(one))
		if !slices.Contains(known, reason) {
			return nil, request.ParameterFault("reasons", request.OneOf(known...))
		}
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	if len(reasons) > review.MaxReasons {
		return nil, request.ParameterFault("reasons", request.Between(0, review.MaxReasons))
	}
	return reasons, nil
}

// Ratings returns the ratings of a verdict as they are stored, or a fault if one is not allowed by the rubric.
func Ratings(typed review.Ratings, rubric review.Rubric) (review.Ratings, error) {
	ratings := review.Ratings{}
	for name, value := range typed {
		dimension, isThere := rubric.Dimensions.Named(name)
		switch {
		case !isThere && len(rubric.Dimensions) == 0:
			return nil, request.ParameterFault("ratings", request.NoDimensions())
		case !isThere:
			return nil, request.ParameterFault("ratings", request.OneOf(rubric.Dimensions.Names()...))
		case !dimension.Allows(value) && len(dimension.Choices) > 0:
			return nil, request.ParameterFault("ratings."+name, request.OneOf(dimension.Choices...))
		case !dimension.Allows(value):
			return nil, request.ParameterFault("ratings."+name, request.Between(*dimension.Min, *dimension.Max))
		}
		ratings[name] = value
	}
	return ratings, nil
}

// Matchup parses the numbers of two variants of a task whose answers are to be compared; their order does not matter.
func Matchup(a, b string, task db.Task) (of review.Matchup, err error) {
	for _, side := range []struct {
		name, text string
		to         *int
	}{{"a", a, &of.A}, {"b", b, &of.B}} {
		*side.to, err = strconv.Atoi(side.text)
		if err != nil || *side.to < 1 || *side.to > task.TotalVariants {
			return of, request.ParameterFault(side.name, request.Between(1, task.TotalVariants))
		}
	}
	if of.A == of.B {
		return of, request.ParameterFault("b", request.OtherThan("a"))
	}
	return review.Matchup{A: min(of.A, of.B), B: max(of.A, of.B)}, nil
}

// Preference returns a verdict on a pair of answers, or a fault if it is none of the valid ones.
func Preference(given review.Preference) (review.Preference, error) {
	if !slices.Contains(review.Preferences, given) {
		return "", request.ParameterFault("verdict", request.OneOf(string(review.PrefersA), string(review.PrefersB),
			string(review.Same)))
	}
	return given, nil
}
