package dataset

import (
	"syscall"
	"time"
)

// ProcessorTime returns the CPU time of the calling thread: on a busy machine a file must not count as complex just
// because other threads were running.
func ProcessorTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD of getrusage(2), which package syscall lacks
	var usage syscall.Rusage
	if err := syscall.Getrusage(thread, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
