//go:build !race

package archive

// pace is the factor by which this build increases the CPU time of reading.
const pace = 1
