//go:build race

package archive

// pace multiplies the CPU time that reading an archive may take: the race detector checks every memory access.
const pace = 10
