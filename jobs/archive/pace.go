//go:build !race

package archive

// pace is how many times the processor's time reading takes in this build.
const pace = 1
