package cron_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/cron"
)

func plan(t *testing.T, expression, zone string) cron.Plan {
	t.Helper()
	p, err := cron.Parse(expression, zone)
	require.NoError(t, err, expression)
	return p
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return moment
}

func TestTheNextTimes(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ name, expression, zone, after, next string }{
		{"every night", "0 2 * * *", "Asia/Shanghai", "2026-11-22T17:59:59Z", "2026-11-22T18:00:00Z"},
		{"not at the same moment again", "0 2 * * *", "Asia/Shanghai", "2026-11-22T18:00:00Z", "2026-11-23T18:00:00Z"},
		{"weekdays", "30 9 * * 1-5", "Asia/Shanghai", "2026-11-20T01:30:00Z", "2026-11-23T01:30:00Z"},
		{"the last day of February", "0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"every quarter of an hour", "*/15 * * * *", "Asia/Shanghai", "2026-11-22T17:59:59Z", "2026-11-22T18:00:00Z"},
		// In New York, clocks go forward on 8 March 2026 at 02:00 (07:00 UTC), and back on 1 November at 02:00 (06:00
		// UTC).
		{"left out, so at the change", "30 2 * * *", "America/New_York", "2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z"},
		{"and then as always", "30 2 * * *", "America/New_York", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"},
		{"the hour after the change", "0 3 * * *", "America/New_York", "2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z"},
		{"shown twice, so the first time", "30 1 * * *", "America/New_York", "2026-11-01T04:00:00Z", "2026-11-01T05:30:00Z"},
		{"and not the second", "30 1 * * *", "America/New_York", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"},
		{"asked between the two", "30 1 * * *", "America/New_York", "2026-11-01T05:45:00Z", "2026-11-02T06:30:00Z"},
		{"an interval goes on through the hour that comes twice", "*/30 * * * *", "America/New_York", "2026-11-01T05:30:00Z",
			"2026-11-01T06:00:00Z"},
		{"and again", "*/30 * * * *", "America/New_York", "2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z"},
		{"half an hour of change", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T14:00:00Z", "2026-10-03T15:30:00Z"},
		{"a day that is left out", "0 12 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2011-12-30T10:00:00Z"},
	} {
		require.Equal(t, at(t, one.next).UTC(), plan(t, one.expression, one.zone).Next(at(t, one.after)).UTC(), one.name)
	}
}

// Over a year with both changes, a daily time occurs exactly once a day.
func TestADailyTimeComesOnceADay(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Shanghai",
		"Africa/Casablanca", "America/St_Johns"} {
		for _, expression := range []string{"0 2 * * *", "30 2 * * *", "59 1 * * *", "0 0 * * *", "30 1 * * *", "0 3 * * *"} {
			p, next, days := plan(t, expression, zone), at(t, "2026-01-01T12:00:00Z"), map[string]int{}
			location, err := time.LoadLocation(zone)
			require.NoError(t, err)
			count := 0
			for end := at(t, "2027-01-01T12:00:00Z"); ; count++ {
				before := next
				if next = p.Next(before); !next.Before(end) {
					break
				}
				require.True(t, next.After(before))
				days[next.In(location).Format(time.DateOnly)]++
			}
			require.Equal(t, 365, count, "%s in %s", expression, zone)
			require.Len(t, days, 365, "%s in %s", expression, zone)
		}
	}
}

func TestWhatIsNoPlan(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"", "* * * *", "0 0 2 * * *", "61 * * * *", "0 25 * * *", "@never", "@every 1h",
		"TZ=UTC 0 2 * * *", "a b c d e", "0 2 * * mon-"} {
		_, err := cron.Parse(expression, "UTC")
		require.ErrorIs(t, err, cron.ErrExpression, expression)
	}
	_, err := cron.Parse("0 0 31 2 *", "UTC")
	require.ErrorIs(t, err, cron.ErrNever)
	for _, zone := range []string{"", "Local", "Mars/Olympus", "../etc/passwd"} {
		_, err := cron.Parse("0 2 * * *", zone)
		require.ErrorIs(t, err, cron.ErrTimezone, zone)
	}
}

func TestMissedTimesAreCounted(t *testing.T) {
	t.Parallel()
	p := plan(t, "0 * * * *", "Asia/Shanghai")
	require.Equal(t, 24, p.Missed(at(t, "2026-11-21T00:00:00Z"), at(t, "2026-11-22T00:00:00Z"), 100))
	require.Equal(t, 10, p.Missed(at(t, "2026-11-21T00:00:00Z"), at(t, "2026-11-22T00:00:00Z"), 10))
	require.Zero(t, p.Missed(at(t, "2026-11-21T00:00:00Z"), at(t, "2026-11-21T00:59:59Z"), 10))
}

// Sunday is 0 and 7, as in crontab(5), and the usual names stand for expressions.
func TestSundayHasTwoNumbers(t *testing.T) {
	t.Parallel()
	for expression, same := range map[string]string{
		"0 9 * * 7": "0 9 * * 0", "0 9 * * 5-7": "0 9 * * 5,6,0", "0 9 * * 1-7": "0 9 * * 0-6", "0 9 * * 1,7": "0 9 * * 0,1",
		"0 9 * * 1-7/2": "0 9 * * 1,3,5,0",
		"0 9 * * mon-7": "0 9 * * 0-6", "0 9 * * 7-7": "0 9 * * 0",
		"@daily": "0 0 * * *", "@Weekly": "0 0 * * 0", " @monthly ": "0 0 1 * *", "@yearly": "0 0 1 1 *",
		"@hourly": "0 * * * *", "@midnight": "0 0 * * *",
	} {
		from := at(t, "2026-11-22T17:59:59Z")
		for range 20 {
			next := plan(t, same, "Asia/Shanghai").Next(from)
			require.Equal(t, next, plan(t, expression, "Asia/Shanghai").Next(from), expression)
			from = next
		}
	}
}

func TestAWrongFieldIsNamed(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]cron.FieldError{
		"61 * * * *":   {Field: "minute", Value: "61"},
		"0 24 * * *":   {Field: "hour", Value: "24"},
		"0 0 L * *":    {Field: "day", Value: "L"},
		"0 0 1 13 *":   {Field: "month", Value: "13"},
		"0 0 * * 8":    {Field: "weekday", Value: "8"},
		"0 0 * * ７":    {Field: "weekday", Value: "７"},
		"0 0 * * 9-7":  {Field: "weekday", Value: "9-7"},
		"0 0 * * 1-/7": {Field: "weekday", Value: "1-/7"},
	} {
		_, err := cron.Parse(expression, "UTC")
		var wrong *cron.FieldError
		require.ErrorAs(t, err, &wrong, expression)
		require.Equal(t, want, *wrong)
	}
}

func TestTheShortestTimeBetweenTwo(t *testing.T) {
	t.Parallel()
	for expression, minutes := range map[string]int{
		"* * * * *": 1, "*/5 * * * *": 5, "*/7 * * * *": 4, "0 * * * *": 60, "0,3 2 * * *": 3, "0 2 * * *": 24 * 60,
		"59,0 * * * *": 1, "*/15 9-17 * * 1-5": 15,
		"58 9 * * *": 24 * 60, "0,58 9,11 * * *": 58, "2,58 9,10 * * *": 4, "0 */2 * * *": 120, "1-2 2 29 2 *": 1,
		"30 9 * * 1": 24 * 60,
		"0 0 * * *":  24 * 60, "1,59 0,23 * * *": 2, // from 23:59 to 00:01
		"1,59 0,23 1 * *": 58, "1,59 0,23 31 12 *": 58, "1,59 0,23 31,1 * *": 2, "1,59 0,23 28,29 2 *": 2,
		"1,59 0,23 * * 1": 58, "1,59 0,23 1 * 2": 2,
	} {
		require.Equal(t, minutes, plan(t, expression, "Asia/Shanghai").Shortest(), expression)
	}
}
