package tasks

import (
	"context"
	"errors"
	"reflect"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/db/people"
	"wending/jobs/secret"
)

// DefaultConfirmRuns is the default number of fresh runs that confirm a change; 1 to MaxRuns are allowed.
const DefaultConfirmRuns = 5

// Sides are the sides of a comparison that a confirmation repeats.
type Sides string

// The sides. By default both are repeated, unless they call the same agent in the same way: then they differ only in
// time, the first task's answers cannot be reproduced, and only the second side is repeated.
const (
	BothSides  Sides = "both"
	SecondSide Sides = "b"
)

// AllSides lists the possible values of Sides.
var AllSides = []Sides{BothSides, SecondSide}

// ConfirmedSide is a side of a comparison with the questions to repeat, in the same order on both sides.
type ConfirmedSide struct {
	Task    db.Task
	Variant int
	Items   []int64
}

// Confirmation repeats questions to find out whether their changes can be reproduced.
type Confirmation struct {
	A, B  ConfirmedSide
	Sides Sides
	// Runs is the number of fresh runs of each question on each repeated side.
	Runs int
}

// SidesToAsk returns the sides that a confirmation repeats by default; none if the key of their secrets is lost,
// because then the tasks cannot be run at all.
func (s *Service) SidesToAsk(a db.Task, variantA int, b db.Task, variantB int) (Sides, error) {
	sides, err := s.sidesToAsk(a, variantA, b, variantB)
	if errors.Is(err, secret.ErrKey) {
		return "", nil
	}
	return sides, err
}

func (s *Service) sidesToAsk(a db.Task, variantA int, b db.Task, variantB int) (Sides, error) {
	if !a.AsksAgents() {
		return SecondSide, nil
	}
	ofA, err := s.wayOfAsking(a, variantA)
	if err != nil {
		return "", err
	}
	ofB, err := s.wayOfAsking(b, variantB)
	if err != nil {
		return "", err
	}
	if a.ID != b.ID && reflect.DeepEqual(ofA, ofB) {
		return SecondSide, nil
	}
	return BothSides, nil
}

// wayOfAsking is everything that is sent to an agent apart from the question.
type wayOfAsking struct {
	protocol, model, system, user string
	secrets                       Target
}

func (s *Service) wayOfAsking(task db.Task, number int) (way wayOfAsking, err error) {
	for _, variant := range task.Variants {
		if variant.Number != number {
			continue
		}
		target := task.Target(variant.Target)
		way = wayOfAsking{protocol: target.Protocol, model: TextOf(target.Model), system: TextOf(variant.SystemTemplate),
			user: TextOf(variant.UserTemplate)}
		way.secrets, err = Open(s.Sealer, target)
	}
	return way, err
}

// Confirm repeats the questions of a confirmation by extending each task involved, subject to its limits, budgets and
// quotas. It returns the errors of engine.Confirmations.Confirm, and those of Extend. Both tasks must be in one
// project.
func (s *Service) Confirm(ctx context.Context, by db.Actor, c Confirmation) (Sides, error) {
	if c.Runs < 1 || c.Runs > MaxRuns {
		return "", &InvalidError{Field: "runs", Problem: OutOfRange, Min: 1, Max: MaxRuns}
	}
	if len(c.B.Items) == 0 {
		return "", db.ErrNothingToRun
	}
	if c.Sides == "" {
		var err error
		if c.Sides, err = s.sidesToAsk(c.A.Task, c.A.Variant, c.B.Task, c.B.Variant); err != nil {
			return "", err
		}
	}
	sides := []ConfirmedSide{c.B}
	if c.Sides == BothSides {
		sides = append(sides, c.A)
	}
	record := engine.Confirmation{
		A: engine.ConfirmedSide{TaskID: c.A.Task.ID, Variant: c.A.Variant, Items: c.A.Items,
			IsAsked: c.Sides == BothSides},
		B:    engine.ConfirmedSide{TaskID: c.B.Task.ID, Variant: c.B.Variant, Items: c.B.Items, IsAsked: true},
		Runs: c.Runs, Launches: map[uuid.UUID]db.NewLaunch{},
	}
	for _, side := range sides {
		if err := side.Task.CheckAsking(); err != nil {
			return "", err
		}
		launch, err := s.mayLaunch(ctx, by, side.Task)
		if err != nil {
			return "", err
		}
		record.Launches[side.Task.ID] = launch
	}
	err := people.NewQuotas(s.Store).Admits(ctx, c.B.Task.ProjectID, func() (int, error) {
		return len(c.B.Items) * c.Runs * len(sides), nil
	})
	if err != nil {
		return "", err
	}
	launches, err := engine.NewConfirmations(s.Store).Confirm(ctx, db.InProject(c.B.Task.ProjectID), record)
	if err != nil {
		return "", err
	}
	for taskID, launchID := range launches {
		s.Log.InfoContext(ctx, "confirmation requested", "task_id", taskID, "launch_id", launchID,
			"questions", len(c.B.Items), "runs", c.Runs)
		s.Wake(ctx, taskID, launchID)
	}
	return c.Sides, nil
}
