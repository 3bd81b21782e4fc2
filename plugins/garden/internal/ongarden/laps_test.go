//go:build linux

package ongarden

import (
	"slices"
	"testing"
	"time"
)

// laps are the times of a step's three parts and of the whole, of many steps.
type laps [4][]time.Duration

// total is the whole.
const total = 3

// time runs the parts of one step, one after the other.
func (l *laps) time(t testing.TB, parts [total]func() error) {
	t.Helper()
	var sum time.Duration
	for i, part := range parts {
		at := time.Now()
		if err := part(); err != nil {
			t.Fatal(err)
		}
		took := time.Since(at)
		l[i] = append(l[i], took)
		sum += took
	}
	l[total] = append(l[total], sum)
}

// median is that of a part, in ms.
func (l *laps) median(part int) float64 {
	slices.Sort(l[part])
	return l[part][len(l[part])/2].Seconds() * 1e3
}
