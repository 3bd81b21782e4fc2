//go:build race

package testkit

// Race is whether the tests have the race detector, which makes what is computed about ten times slower, and takes several times the memory.
const Race = true
