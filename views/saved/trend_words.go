package saved

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"wending/jobs/cron"
	"wending/views/text"
)

// timesShown is the maximum number of times of day that are listed.
const timesShown = 6

// PlanWords describes in plain language when a plan fires; expression is the cron expression of the plan.
func PlanWords(l text.Locale, plan cron.Plan, expression string) string {
	shape := plan.Shape()
	isEveryDay := shape.Days == nil && shape.Weekdays == nil && shape.Months == nil
	if every := step(shape.Minutes, 60); shape.Hours == nil && isEveryDay && (every > 0 || shape.Minutes == nil) {
		return l.Text("cron.minutes", "Count", max(every, 1))
	}
	if len(shape.Minutes) == 1 && isEveryDay {
		minute := fmt.Sprintf("%02d", shape.Minutes[0])
		if shape.Hours == nil {
			return l.Text("cron.hourly", "Minute", minute)
		}
		if every := step(shape.Hours, 24); every > 0 && len(shape.Hours) > timesShown {
			return l.Text("cron.hours", "Count", every, "Minute", minute)
		}
	}
	return dayWords(l, shape, expression)
}

// dayWords is like PlanWords, but only for plans that fire at certain times on certain days.
func dayWords(l text.Locale, shape cron.Shape, expression string) string {
	times := timesOf(shape)
	if times == nil || shape.Months != nil || shape.Days != nil && shape.Weekdays != nil {
		return l.Text("cron.custom", "Expression", expression)
	}
	joined := strings.Join(times, l.Text("cron.separator"))
	switch {
	case slices.Equal(shape.Weekdays, []int{1, 2, 3, 4, 5}):
		return l.Text("cron.workdays", "Times", joined)
	case shape.Weekdays != nil:
		names := make([]string, len(shape.Weekdays))
		for n, day := range shape.Weekdays {
			names[n] = l.Text("cron.day." + strconv.Itoa(day))
		}
		return l.Text("cron.weekly", "Days", strings.Join(names, l.Text("cron.separator")), "Times", joined)
	case shape.Days != nil:
		numbers := make([]string, len(shape.Days))
		for n, day := range shape.Days {
			numbers[n] = strconv.Itoa(day)
		}
		return l.Text("cron.monthly", "Days", strings.Join(numbers, l.Text("cron.separator")), "Times", joined)
	}
	return l.Text("cron.daily", "Times", joined)
}

// timesOf returns the times of day; nil if there are too many to name.
func timesOf(shape cron.Shape) (times []string) {
	if shape.Hours == nil || shape.Minutes == nil || len(shape.Hours)*len(shape.Minutes) > timesShown {
		return nil
	}
	for _, hour := range shape.Hours {
		for _, minute := range shape.Minutes {
			times = append(times, fmt.Sprintf("%02d:%02d", hour, minute))
		}
	}
	return times
}

// step returns n if the values are 0, n, 2n … up to whole, and 0 otherwise.
func step(values []int, whole int) int {
	if len(values) < 2 || values[0] != 0 || whole%values[1] != 0 || len(values) != whole/values[1] {
		return 0
	}
	for n, value := range values {
		if value != n*values[1] {
			return 0
		}
	}
	return values[1]
}
