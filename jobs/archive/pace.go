//go:build !race

package archive

// pace is the factor by which this build slows down reading, in CPU time.
const pace = 1
