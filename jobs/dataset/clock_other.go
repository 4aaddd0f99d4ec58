//go:build !linux

package dataset

import "time"

var started = time.Now()

// processorTime returns the time since the program's start, where that of a thread is not known.
func processorTime() time.Duration { return time.Since(started) }
