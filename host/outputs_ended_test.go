package host

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// sealCase is a container of an owner with an output and a cache, in which processes were started.
type sealCase struct {
	t testing.TB
	h *Host
	c *Container
}

const sealedKey = "k"

func newSealCase(t testing.TB, owner string) *sealCase {
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	c, err := h.Container(testkit.Context(t), owner, ContainerRequest{Outputs: []Output{{"o", "o"}}, Caches: []Cache{{Key: sealedKey, Path: "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	return &sealCase{t, h, c}
}

// halfDone is what writes half of an output and of a cache, and says so, before it waits for ever.
const halfDone = "echo half > o/f; echo half > c/f; echo ready; sleep 100000"

// start starts a process; one that runs for ever has written half of what it was to.
func (s *sealCase) start(name, text string) *Process {
	s.t.Helper()
	p, err := s.c.Start(testkit.Context(s.t), name, ProcessRequest{Path: "sh", Args: []string{"-c", text}})
	if err == nil && text == halfDone {
		_, err = firstRecord(s.t, p)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// seal gives the error of both ways to keep what a container leaves, which must be the same.
func (s *sealCase) seal() error {
	s.t.Helper()
	saved := s.c.SaveCaches(testkit.Context(s.t))
	_, err := s.c.Seal(testkit.Context(s.t))
	if (saved == nil) != (err == nil) || err != nil && err.Error() != saved.Error() {
		s.t.Errorf("its caches: %v; its outputs: %v", saved, err)
	}
	return err
}

// kept is what there is of it under the cache's key and the output's name.
func (s *sealCase) kept() int {
	s.t.Helper()
	list, err := s.h.Artifacts(testkit.Context(s.t), ArtifactFilter{})
	if err != nil {
		s.t.Fatal(err)
	}
	return len(list)
}

// TestSealUnended: what a process was writing, or may have been when it was lost or aborted, becomes neither an artifact nor a cache, and what runs goes on.
func TestSealUnended(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin func(s *sealCase)
		want  string // in the error
		after string // a process that is ended so that sealing works
	}{
		"it runs":       {func(s *sealCase) { s.start(MainProcess, halfDone) }, "its process main still runs: wait for its end", MainProcess},
		"another runs":  {func(s *sealCase) { waitOutcome(s.t, s.start(MainProcess, "true")); s.start("more", halfDone) }, "its process more still runs", "more"},
		"it is aborted": {func(s *sealCase) { s.abort(s.start(MainProcess, halfDone), errors.New("enough")) }, "its process main was aborted (enough)", ""},
		"it timed out":  {func(s *sealCase) { s.abort(s.start(MainProcess, halfDone), errTimeout{time.Hour}) }, "its process main was aborted (its timeout of 1h0m0s has passed)", ""},
		"it ended when it was told to": {func(s *sealCase) {
			s.abort(s.start(MainProcess, "trap 'exit 0' TERM; echo half > o/f; echo half > c/f; echo ready; while true; do sleep 0.01; done"), errors.New("enough"))
		}, "its process main was aborted (enough)", ""},
		"it is lost": {func(s *sealCase) {
			p := s.start(MainProcess, halfDone)
			if err := s.h.loseContainer(testkit.Context(s.t), string(s.c.id), "gone"); err != nil {
				s.t.Fatal(err)
			}
			_ = s.h.endProcess(testkit.Context(s.t), p.id, "lost", "gone", nil)
		}, "its process main was lost (gone)", ""},
		"it was destroyed": {func(s *sealCase) {
			p := s.start(MainProcess, halfDone)
			if err := s.c.Destroy(testkit.Context(s.t)); err != nil {
				s.t.Fatal(err)
			}
			waitOutcome(s.t, p)
		}, "its process main was aborted (" + containerDestroyed + ")", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSealCase(t, "owner")
			c.begin(s)
			for range 2 {
				err := s.seal()
				if !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, ReasonUnended) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("sealing: %v, want %q", err, c.want)
				}
			}
			if n := s.kept(); n != 0 {
				t.Errorf("%d artifacts are there", n)
			}
			if c.after == "" {
				return
			}
			p, err := s.h.FindProcess(testkit.Context(t), "owner", c.after)
			if err == nil {
				err = p.Signal(testkit.Context(t), sdk.KILL) // its owner's own signal: its end counts
			}
			if err != nil {
				t.Fatal(err)
			}
			waitOutcome(t, p)
			for range 2 {
				if err := s.seal(); err != nil {
					t.Error(err)
				}
			}
			if n := s.kept(); n != 2 {
				t.Errorf("%d artifacts are there", n)
			}
		})
	}
}

func (s *sealCase) abort(p *Process, why error) {
	s.t.Helper()
	if _, err := firstRecord(s.t, p); err != nil {
		s.t.Fatal(err)
	}
	ctx := testkit.Context(s.t)
	if err := p.Abort(ctx, ctx, s.c, why, testkit.Bound(s.t)); err != nil {
		s.t.Fatal(err)
	}
	waitOutcome(s.t, p)
}

// TestSealStarting: while nobody knows whether a start took effect, nothing is sealed.
func TestSealStarting(t *testing.T) {
	t.Parallel()
	s := newSealCase(t, "owner")
	spec := sdk.ProcessSpec{ID: MainProcess, Token: sdk.NewToken(), Path: "true"}
	if _, _, err := s.c.claimProcess(testkit.Context(t), spec, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.seal(); !errors.Is(err, ReasonUnended) || !strings.Contains(err.Error(), "start it again under the same name") {
		t.Errorf("sealing: %v", err)
	}
	waitOutcome(t, s.start(MainProcess, "true"))
	if err := s.seal(); err != nil {
		t.Error(err)
	}
}

// TestSealNothingStarted: what nobody has written in is whole.
func TestSealNothingStarted(t *testing.T) {
	t.Parallel()
	s := newSealCase(t, "owner")
	if err := s.seal(); err != nil || s.kept() != 2 {
		t.Errorf("sealing: %v; %d artifacts are there", err, s.kept())
	}
}

// TestSealWithoutOutputs: a container that has nothing to keep is not ended either while something runs in it.
func TestSealWithoutOutputs(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	p := script(t, h, "owner", "echo ready; sleep 100000")
	if _, err := firstRecord(t, p); err != nil {
		t.Fatal(err)
	}
	c, err := h.FindContainer(testkit.Context(t), "owner")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Seal(testkit.Context(t)); !errors.Is(err, ReasonUnended) {
		t.Errorf("sealing: %v", err)
	}
	if err := p.Signal(testkit.Context(t), sdk.KILL); err != nil {
		t.Fatal(err)
	}
	if o := waitOutcome(t, p); o.Exit == nil {
		t.Errorf("it came to %s", say(o))
	}
	if _, err := c.Seal(testkit.Context(t)); err != nil {
		t.Error(err)
	}
}

// TestSealBesideVisitors: what somebody has started beside a step's command, to look at it, does not hold up the step's end, and is killed.
func TestSealBesideVisitors(t *testing.T) {
	t.Parallel()
	s := newSealCase(t, RunOwner("r", "s"))
	waitOutcome(t, s.start(MainProcess, "echo whole > o/f"))
	visitor := s.start("visitor", halfDone)
	for range 2 {
		if err := s.seal(); err != nil {
			t.Fatal(err)
		}
	}
	if o := waitOutcome(t, visitor); o.Exit != nil {
		t.Errorf("the visitor came to %s", say(o))
	}
}
