package dataset

import "time"

// LimitTime changes the maximum time for reading.
func LimitTime(limit time.Duration) (previous time.Duration) {
	previous, maxTime = maxTime, limit
	return previous
}
