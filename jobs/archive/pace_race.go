//go:build race

package archive

// pace is the factor by which this build slows down reading, in CPU time: the race detector checks every memory
// access.
const pace = 10
