//go:build !race

package archive

// pace multiplies the CPU time that reading an archive may take; it is greater in builds with the race detector.
const pace = 1
