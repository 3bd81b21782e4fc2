//go:build linux && race

package onrunc

const raceDetector = true
