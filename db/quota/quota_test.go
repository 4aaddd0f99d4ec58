package quota_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/people"
	"wending/db/quota"
	"wending/db/spending"
)

// From 80 % on a quota is nearly used up; what has none never is, and a ceiling of cost holds in each currency.
func TestQuotasWarnBeforeTheyAreUsedUp(t *testing.T) {
	t.Parallel()
	ten, hundred, cost := 10, int64(100), "50"
	most := people.Quota{UploadsPerDay: &ten, CallsPerDay: &hundred, DiskBytes: &hundred, CostPerMonth: &cost, Lanes: &ten}
	used := quota.Used{Uploads: 7, Calls: 79, Bytes: 0, Lanes: 10, Cost: []spending.Sum{{Currency: "USD", Cost: "20"}, {Currency: "CNY", Cost: "39.99"}}}
	require.Empty(t, used.Near(most))
	require.Empty(t, used.Near(people.Quota{}))
	used = quota.Used{Uploads: 8, Calls: 120, Bytes: 80, Cost: []spending.Sum{{Currency: "USD", Cost: "2"}, {Currency: "CNY", Cost: "40"}}}
	require.Equal(t, []quota.Near{{What: quota.Calls, Percent: 120}, {What: quota.Uploads, Percent: 80}, {What: quota.Disk, Percent: 80}, {What: quota.Cost, Percent: 80}}, used.Near(most))
}
