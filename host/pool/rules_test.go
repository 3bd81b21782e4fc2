package pool_test

import (
	"testing"
	"testing/synctest"

	"github.com/slipway-run/slipway/host/pool"
)

// TestSetRules changes limits and chains under those who wait: who fits now goes at once, and what is placed stays.
func TestSetRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chains := pool.Policy{Build: []pool.Strategy{pool.LimitActiveContainers}}
		l := newLine(t, pool.Options{}, running("w"))
		set := func(p pool.Policy, containers int) {
			t.Helper()
			if err := l.q.SetRules(p, pool.Options{Limits: pool.Limits{Containers: containers}}); err != nil {
				t.Fatal(err)
			}
		}
		set(chains, 1)
		l.wait("a", pool.Spec{})
		l.wait("b", pool.Spec{})
		l.wait("c", pool.Spec{})
		l.want("a")
		set(chains, 2)
		l.want("a", "b")
		l.waiting("c")
		if err := l.q.SetRules(pool.Policy{Build: []pool.Strategy{"none"}}, pool.Options{}); err == nil {
			t.Error("a strategy that there is not is taken")
		}
		l.waiting("c")
		set(pool.Policy{}, 2) // whose chains do not name the limit
		l.want("a", "b", "c")
		set(chains, 1)
		l.wait("d", pool.Spec{})
		l.waiting("d")
		for _, owner := range []string{"a", "b"} {
			l.x.Release(owner)
		}
		l.waiting("d")
		l.x.Release("c")
		l.want("a", "b", "c", "d")
	})
}
