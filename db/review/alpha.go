package review

// Nominal is the distance between categories: 0 if they are equal, otherwise 1.
func Nominal[V comparable](a, b V) float64 {
	if a == b {
		return 0
	}
	return 1
}

// Squared is the distance between numbers of which equal differences mean the same.
func Squared(a, b float64) float64 { return (a - b) * (a - b) }

// Alpha returns Krippendorff's α of ratings: 1 is perfect agreement, 0 is the agreement expected by chance. Each unit
// holds the ratings by the people who judged it; units with fewer than two do not count. alpha is nil if no unit
// counts, or if all ratings are the same, so that agreement by chance cannot be estimated. units is the number of units
// that count. (Krippendorff 2011, Computing Krippendorff's Alpha-Reliability.)
func Alpha[V comparable](ratings [][]V, distance func(a, b V) float64) (alpha *float64, units int) {
	totals := map[V]float64{}
	values, observed, expected := 0.0, 0.0, 0.0
	for _, unit := range ratings {
		if len(unit) < 2 {
			continue
		}
		units++
		values += float64(len(unit))
		for _, a := range unit {
			totals[a]++
			for _, b := range unit {
				observed += distance(a, b) / float64(len(unit)-1)
			}
		}
	}
	for a, some := range totals {
		for b, others := range totals {
			expected += some * others * distance(a, b)
		}
	}
	if expected == 0 {
		return nil, units
	}
	result := 1 - (values-1)*observed/expected
	return &result, units
}
