package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestTeamIsToldNoOthersNames: who asks for a team hears how much other teams have of what there is too little, and how many of them come first, but not who they are. Its own team's, and
// an operator, who asks for no team, are told all.
func TestTeamIsToldNoOthersNames(t *testing.T) {
	t.Parallel()
	cfg := testConfig("m")
	cfg.Workers[0].Limits.Volumes = 1
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}})
	ctx, cancel := context.WithCancel(testkit.Context(t))
	var waiters sync.WaitGroup
	defer waiters.Wait()
	defer cancel()
	outputs := []Output{{Name: "o", Path: "o"}}
	if _, err := h.Container(ctx, "blue-holder", ContainerRequest{Team: "blue", Outputs: outputs}); err != nil {
		t.Fatal(err)
	}
	waiters.Go(func() {
		if _, err := h.queue.Acquire(ctx, "blue-waiter", pool.Spec{Team: "blue", Volumes: 1, Priority: 1}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	testkit.Until(t, "the other waits", func() bool { _, _, ok := h.queue.Find("blue-waiter"); return ok })
	for team, names := range map[string]bool{"": true, "blue": true, "red": false} {
		holder, waiter := "what other teams have (1 volume)", pool.AnotherTeams
		if names {
			holder, waiter = "the container of blue-holder (1 volume)", "blue-waiter"
		}
		_, err := h.Container(ctx, "asks-"+team, ContainerRequest{Team: team, Outputs: outputs, WaitLimit: 1})
		if !errors.As(err, new(*pool.WaitError)) || !strings.Contains(err.Error(), "held by "+holder) || strings.Contains(err.Error(), "blue-") != names {
			t.Errorf("team %q is told %v, want %s", team, err, holder)
		}
		if e, err := h.ExplainRequest(ctx, ContainerRequest{Team: team, Outputs: outputs}); err != nil || !slices.Equal(e.Before, []string{waiter}) {
			t.Errorf("before team %q there come %+v, %v, want %s", team, e, err, waiter)
		}
	}
	e, err := h.ExplainOwner(ctx, "blue-waiter")
	if err != nil || e.Workers[0].Holders.String() != "the container of blue-holder (1 volume)" {
		t.Errorf("the operator is told %+v, %v", e, err)
	}
}

// TestTurnsNameNoOtherTeams: so it is with those who wait for their turn.
func TestTurnsNameNoOtherTeams(t *testing.T) {
	t.Parallel()
	all := newTurns(1)
	done, err := all.take(testkit.Context(t), comer{owner: "first"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(testkit.Context(t))
	waits, ended := make(chan int), make(chan error)
	go func() {
		_, err := all.take(ctx, comer{owner: "run/r/blue", team: "blue"}, func(most int) { waits <- most })
		ended <- err
	}()
	<-waits
	for team, want := range map[string]string{"": "run/r/blue", "blue": "run/r/blue", "red": pool.AnotherTeams} {
		if got, _ := all.ahead(comer{team: team}); !slices.Equal(got, []string{want}) {
			t.Errorf("before team %q there come %q, want %s", team, got, want)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	done()
}
