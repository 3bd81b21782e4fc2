//go:build race

package main

// raceBuild is whether the tests, and so the programs that they run, have the race detector.
const raceBuild = true
