//go:build race

package archive

// pace is the factor by which this build increases the CPU time of reading: the race detector checks every access
// to memory.
const pace = 10
