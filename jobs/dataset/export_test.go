package dataset

import "time"

// LimitTime changes how long reading may take.
func LimitTime(limit time.Duration) (previous time.Duration) {
	previous, maxTime = maxTime, limit
	return previous
}
