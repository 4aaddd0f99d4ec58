package people_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/engine"
	"wending/db/people"
)

// A quota counts as nearly exhausted from 80 % on; one without a limit never does, and a cost ceiling applies to each
// currency.
func TestQuotasWarnBeforeTheyAreUsedUp(t *testing.T) {
	t.Parallel()
	ten, hundred, cost := 10, int64(100), "50"
	most := people.Quota{UploadsPerDay: &ten, CallsPerDay: &hundred, DiskBytes: &hundred, CostPerMonth: &cost, Lanes: &ten}
	used := people.QuotaUsed{Uploads: 7, Calls: 79, Bytes: 0, Lanes: 10,
		Cost: []engine.Sum{{Currency: "USD", Cost: "20"}, {Currency: "CNY", Cost: "39.99"}}}
	require.Empty(t, used.Near(most))
	require.Empty(t, used.Near(people.Quota{}))
	used = people.QuotaUsed{Uploads: 8, Calls: 120, Bytes: 80,
		Cost: []engine.Sum{{Currency: "USD", Cost: "2"}, {Currency: "CNY", Cost: "40"}}}
	require.Equal(t, []people.QuotaNear{{What: people.QuotaCalls, Percent: 120}, {What: people.QuotaUploads, Percent: 80},
		{What: people.QuotaDisk, Percent: 80}, {What: people.QuotaCost, Percent: 80}}, used.Near(most))
}
