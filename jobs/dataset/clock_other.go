//go:build !linux

package dataset

import "time"

var started = time.Now()

// ProcessorTime returns the time since the program's start, on systems that do not report a thread's CPU time.
func ProcessorTime() time.Duration { return time.Since(started) }
