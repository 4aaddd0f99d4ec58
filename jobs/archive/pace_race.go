//go:build race

package archive

// pace is by how much this build multiplies the CPU time of reading: the race detector watches every access.
const pace = 10
