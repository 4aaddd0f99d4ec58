//go:build race

package archive

// pace is how many times the processor's time reading takes in this build: the race detector watches every access.
const pace = 10
