package form

import (
	"errors"

	"github.com/google/uuid"

	"wending/handlers/request"
	"wending/jobs/library"
)

// The parameters that identify two firings of a schedule.
const (
	PairSince = "since"
	PairAt    = "at"
)

// ReadPair returns the two firings of a schedule to compare, from their ids in the parameters; their order does not
// matter. An empty id leaves the choice of that firing to library.CompareFirings.
func ReadPair(since, at string) (pair library.FiringPair, err error) {
	for _, side := range []struct {
		name, text string
		to         *uuid.UUID
	}{{PairSince, since, &pair.Since}, {PairAt, at, &pair.At}} {
		if side.text == "" {
			continue
		}
		if *side.to, err = uuid.Parse(side.text); err != nil {
			return pair, request.ParameterFault(side.name, request.Existing())
		}
	}
	return pair, nil
}

// PairFault turns an error about two firings that cannot be compared into a fault of the parameter that caused it; it
// returns other errors unchanged.
func PairFault(err error) error {
	switch {
	case errors.Is(err, library.ErrNoEarlierFiring):
		return request.ParameterFault(PairSince, request.Existing())
	case errors.Is(err, library.ErrNoFiring):
		return request.ParameterFault(PairAt, request.Existing())
	case errors.Is(err, library.ErrSamePair):
		return request.ParameterFault(PairSince, request.OtherThan(PairAt))
	}
	return err
}
