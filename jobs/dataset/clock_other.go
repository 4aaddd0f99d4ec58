//go:build !linux

package dataset

import "time"

var started = time.Now()

// ProcessorTime returns the time since the program's start, where a thread's own is not known.
func ProcessorTime() time.Duration { return time.Since(started) }
