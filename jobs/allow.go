package jobs

import (
	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"wending/db/engine"
)

// purse identifies one ceiling in one currency.
type purse struct {
	reason   string
	owner    uuid.UUID
	currency string
}

// state is Allow's working state for one purse.
type state struct {
	// free is the amount left if each unit in flight has the average cost.
	free     decimal.Decimal
	inFlight int
	// sharers is the number of launches that have not received their share.
	sharers int64
}

// Allow returns how many units each launch may claim in total, and the ceilings that are reached, one per launch.
// For each unit in flight it reserves the mean cost of a unit of its task's most expensive target. Until the cost
// of a first unit is known, only one is allowed at a time. Launches that share a ceiling get equal shares of
// it. A launch gets only half of the remaining amount at a time, so that a rise in cost is noticed before all of it is
// committed.
func Allow(standings []engine.Standing) engine.Verdict {
	allowed, reached := map[uuid.UUID]int64{}, map[uuid.UUID]engine.Standing{}
	purses := map[purse]*state{}
	for _, one := range standings {
		key := purse{one.Reason, one.Owner, one.Currency}
		if purses[key] == nil {
			purses[key] = &state{free: one.Left}
		}
		of := purses[key]
		of.free = of.free.Sub(one.PerUnit.Mul(decimal.NewFromInt(int64(one.InFlight))))
		of.inFlight += one.InFlight
		of.sharers++
	}
	for first := 0; first < len(standings); {
		end := first + 1
		for end < len(standings) && *standings[end].LaunchID == *standings[first].LaunchID {
			end++
		}
		own := standings[first:end]
		first = end
		id := *own[0].LaunchID
		if spent := spentOf(own, purses); spent != nil {
			reached[id] = *spent
		}
		allowed[id] = own[0].Claimed + grant(own, purses)
	}
	return engine.Verdict{Allowed: allowed, Reached: reached}
}

// spentOf returns a ceiling that a launch has reached before beginning all its calls; nil if there is none. As long as
// calls in flight may cost less than their reservations, a ceiling counts as reached only if it is already spent.
func spentOf(own []engine.Standing, purses map[purse]*state) *engine.Standing {
	for n, one := range own {
		if !one.IsWaiting {
			continue
		}
		if !one.Left.IsPositive() || one.IsSpent() && purses[purse{one.Reason, one.Owner, one.Currency}].inFlight == 0 {
			return &own[n]
		}
	}
	return nil
}

// many is more units than any launch has.
const many = 1 << 40

// unitsIn returns how many units of a cost fit into an amount, capped at the constant many; negative if the amount is.
func unitsIn(amount, perUnit decimal.Decimal) int64 {
	fits, most := amount.Div(perUnit).Floor(), decimal.NewFromInt(many)
	switch {
	case fits.GreaterThan(most): // the number may not fit into an int64
		return many
	case fits.LessThan(most.Neg()):
		return -many
	}
	return fits.IntPart()
}

// grant returns how many more units a launch may claim, and deducts their cost from its purses.
func grant(own []engine.Standing, purses map[purse]*state) int64 {
	units := int64(many)
	for _, one := range own {
		of := purses[purse{one.Reason, one.Owner, one.Currency}]
		switch {
		case !one.Left.IsPositive() || one.IsUnknown && one.InFlight > 0:
			units = 0
		case one.IsUnknown:
			units = min(units, 1)
		}
		if !one.PerUnit.IsPositive() {
			continue
		}
		fits := unitsIn(of.free, one.PerUnit)
		part := max(fits/of.sharers, min(1, fits))
		units = min(units, (max(0, part)+1)/2)
	}
	for _, one := range own {
		of := purses[purse{one.Reason, one.Owner, one.Currency}]
		of.sharers--
		of.free = of.free.Sub(one.PerUnit.Mul(decimal.NewFromInt(units)))
	}
	return max(0, units)
}
