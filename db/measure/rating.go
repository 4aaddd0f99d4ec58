package measure

// Alpha returns Krippendorff's α of nominal verdicts: 1 is perfect agreement, 0 is the agreement expected by chance.
// Each unit holds the verdicts of the people who judged it; units with fewer than two do not count. alpha is nil if no
// unit counts, or if all verdicts are the same, so that agreement by chance cannot be estimated. units is the number
// of units that count. (Krippendorff 2011, Computing Krippendorff's Alpha-Reliability.)
func Alpha[V comparable](verdicts [][]V) (alpha *float64, units int) {
	totals := map[V]float64{}
	values, observed := 0.0, 0.0 // observed counts pairs that disagree, weighted
	for _, unit := range verdicts {
		if len(unit) < 2 {
			continue
		}
		units++
		counts := map[V]float64{}
		for _, verdict := range unit {
			counts[verdict]++
			totals[verdict]++
		}
		size := float64(len(unit))
		values += size
		for _, count := range counts {
			observed += count * (size - count) / (size - 1)
		}
	}
	expected := 0.0
	for _, total := range totals {
		expected += total * (values - total)
	}
	if expected == 0 {
		return nil, units
	}
	result := 1 - (values-1)*observed/expected
	return &result, units
}
