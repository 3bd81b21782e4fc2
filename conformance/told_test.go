package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slipway-run/slipway/sdk"
)

func textOf(t *testing.T, sum Summary) string {
	t.Helper()
	var b strings.Builder
	if err := WriteText(&b, sum, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestOneLackIsToldOnce: what many cases are refused is told before all others, and once, whatever each of them was about.
func TestOneLackIsToldOnce(t *testing.T) {
	other := probe("A-other", func(_ context.Context, c *C) { c.Errorf("it matters", "an answer is wrong") })
	cases := []Case{other}
	for i, path := range []string{"/v", "/in", "/work", "/x/y", "/out"} {
		cases = append(cases, probe(fmt.Sprintf("M%02d-mount", i), func(_ context.Context, c *C) {
			err := sdk.NewInvalid(sdk.ReasonPath, "container %q cannot have volume %q at %s, mount %d", c.ContainerID(), path, path, i)
			c.OK(err, "creating container %q", c.ContainerID())
		}))
	}
	unlike := probe("M99-unlike", func(_ context.Context, c *C) {
		c.OK(sdk.NewInvalid(sdk.ReasonSpec, "no"), "creating container %q", c.ContainerID())
	})
	text := textOf(t, execute(t, &fake{}, Options{}, append(cases, unlike)...))
	first, rest, _ := strings.Cut(text, "4 more cases have failed alike: core/M01-mount, core/M02-mount, core/M03-mount, core/M04-mount\n")
	if !strings.HasPrefix(first, "FAIL core/M00-mount") || strings.Count(first, "FAIL") != 1 || !strings.Contains(rest, "FAIL core/A-other") || !strings.Contains(rest, "FAIL core/M99-unlike") ||
		strings.Contains(rest, "M01") {
		t.Errorf("five cases that lack one thing, one that lacks another, and one that failed in its own way:\n%s", text)
	}
}

// TestErrorsWithoutDetailsAreToldFirst: all that a plugin refuses then fails some case, however many of them were refused alike.
func TestErrorsWithoutDetailsAreToldFirst(t *testing.T) {
	refused := func(_ context.Context, c *C) {
		c.OK(sdk.NewInternal(status.Error(codes.Internal, "a code alone"), "no"), "creating container %q", c.ContainerID())
	}
	detail := probe(errorDetailID, func(_ context.Context, c *C) { c.Errorf("it matters", "a bare Error") })
	var cases []Case
	for i := range many {
		cases = append(cases, probe(fmt.Sprintf("M%02d-x", i), refused))
	}
	text := textOf(t, execute(t, &fake{}, Options{}, append(cases, detail)...))
	if !strings.HasPrefix(text, "FAIL core/"+errorDetailID) || !strings.Contains(text, "got internal (by its code alone, without a slipway Error: see J15): ") {
		t.Errorf("the report is\n%s", text)
	}
}

// TestTimeIsToldFirst: what fails once a case's time is up follows from that.
func TestTimeIsToldFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sum := execute(t, &fake{}, Options{}, probe("slow", func(ctx context.Context, c *C) {
			<-ctx.Done()
			c.Errorf("it matters", "an answer is missing")
		}))
		got := sum.result(t, "slow").Failures
		if len(got) != 2 || !strings.Contains(got[0].What, "longer than 30s") || got[1].What != "an answer is missing" {
			t.Errorf("told are %v", got)
		}
	})
}

// TestSlowestAreAChoice: no report names all cases as the slowest ones.
func TestSlowestAreAChoice(t *testing.T) {
	var cases []Case
	for i := range slowest {
		cases = append(cases, probe(fmt.Sprintf("P%02d-x", i), func(context.Context, *C) {}))
		ran := len(cases) + 1 // what is left over is a case, too
		if text := textOf(t, execute(t, &fake{}, Options{}, cases...)); strings.Contains(text, "slowest") != (ran > slowest) {
			t.Fatalf("of %d cases:\n%s", ran, text)
		}
	}
	skipped := probe("S-skipped", func(context.Context, *C) {})
	if text := textOf(t, execute(t, &fake{}, Options{Skip: []string{"S*"}}, append(cases, skipped)...)); !strings.Contains(text, "slowest of 11:\n") {
		t.Errorf("of more cases than are named:\n%s", text)
	}
}

// TestProfilesOfOthersAreNotTold: whoever runs one case sees the verdict of its profile, and of none of which nothing was asked.
func TestProfilesOfOthersAreNotTold(t *testing.T) {
	streams, large := probe("F01-x", func(context.Context, *C) {}), probe("G01-x", func(context.Context, *C) {})
	streams.Profile, large.Profile = Streaming, Stress
	text := textOf(t, execute(t, &fake{}, Options{Only: []string{"P01"}}, probe("P01-x", func(context.Context, *C) {}), streams))
	if !strings.Contains(text, "\ncore ") || strings.Contains(text, "\nstreaming ") {
		t.Errorf("the report is\n%s", text)
	}
	if sum := execute(t, &fake{}, Options{Only: []string{"G01"}}, streams, large); sum.result(t, "G01-x").Status != Pass {
		t.Errorf("a case of a profile that runs only where it is named, by its number: %s", sum.result(t, "G01-x").Status)
	}
}

// gone is a worker that says from some time on that its plugin has gone, though it has not.
type gone struct {
	*fake
	from bool
}

func (g *gone) Worker(string) (sdk.Worker, error) { return g, nil }

func (g *gone) ListVolumes(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	if g.from {
		return &sdk.Error{Class: sdk.Unavailable, Reason: sdk.ReasonPluginGone, Message: "the connection broke"}
	}
	return g.fake.ListVolumes(ctx, f, emit)
}

// TestEndIsAwaitedOnce: a plugin that is said to be gone and lives costs the run the time in which an end would be known once, and not in each case.
func TestEndIsAwaitedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gone{fake: &fake{}}
		target := Target{Name: "gone", Open: func(context.Context) (*Instance, error) {
			return &Instance{Runtime: g, Close: func() {}, Ended: func(ctx context.Context) string { <-ctx.Done(); return "" }}, nil
		}}
		var cases []Case
		for i := range 20 {
			cases = append(cases, probe(fmt.Sprintf("P%02d-x", i), func(ctx context.Context, c *C) {
				g.from = true
				c.ListVolume(ctx, c.VolumeID())
			}))
		}
		began := time.Now()
		sum, err := Execute(t.Context(), target, Options{Cases: cases, TimeScale: 2, Parallel: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := time.Since(began), 2*DefaultTimeout/3; got != want || sum.Counts[Fail] != 21 {
			t.Errorf("it took %v, want %v, and %d cases failed, want all 21", got, want, sum.Counts[Fail])
		}
	})
}
