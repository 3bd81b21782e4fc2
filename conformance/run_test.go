package conformance

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

// TestWithout: what a target lacks on purpose is left out, and is not missing.
func TestWithout(t *testing.T) {
	crash, own, linux := probe("crash", nil), probe("own", nil), probe("linux", nil)
	crash.Env, own.Env, linux.Env = []Requirement{EnvCrash}, []Requirement{EnvProbe}, []Requirement{EnvProbeLinux}
	for _, tt := range []struct {
		without           []Requirement
		crash, own, linux Status
	}{
		{nil, EnvMissing, EnvMissing, EnvMissing},
		{[]Requirement{EnvCrash, EnvProbe}, Skipped, Skipped, Skipped},
		{[]Requirement{EnvProbeLinux}, EnvMissing, EnvMissing, Skipped},
	} {
		sum := execute(t, &fake{}, Options{Without: tt.without}, crash, own, linux)
		if s := sum.statuses(); s["crash"] != tt.crash || s["own"] != tt.own || s["linux"] != tt.linux {
			t.Errorf("without %q: %v", tt.without, s)
		}
	}
	Run(t, InProcess(&fake{}, "w"), Options{Cases: []Case{crash, own, linux}, Without: []Requirement{EnvCrash, EnvProbe}})
}

// TestReasonsToSkip: what has no answer says of which kind that is, for whoever decides which of them may be hidden.
func TestReasonsToSkip(t *testing.T) {
	long := probe("long", func(_ context.Context, c *C) { c.TooLong() })
	dark := probe("dark", func(_ context.Context, c *C) { c.NotObservable("no light") })
	needs, crash := probe("needs", nil), probe("crash", nil)
	needs.Needs, crash.Env = []sdk.Feature{sdk.FeatureTTY}, []Requirement{EnvCrash}
	sum := execute(t, &fake{}, Options{Short: true}, long, dark, needs, crash)
	for id, want := range map[string]string{
		"long": "soak: it takes long", "dark": "not observable: no light", "needs": `unsupported: the worker does not name "tty"`,
		"crash": "env-missing: the target's plugin cannot be killed and restarted",
	} {
		if got := skipReason(sum.result(t, id)); got != want {
			t.Errorf("%s is skipped because of %q, want %q", id, got, want)
		}
	}
	if r := execute(t, &fake{}, Options{}, long).result(t, "long"); r.Status != Pass {
		t.Errorf("a long case that nobody asked to leave out is %s", r.Status)
	}
	if got := skipReason(Result{Status: Skipped, Note: "the run was interrupted"}); got != "skipped: the run was interrupted" {
		t.Errorf("an interrupted case is skipped because of %q", got)
	}
}

// TestAllTimesFollowTheScale: those of a case, of what comes after it, and of the plugin's process.
func TestAllTimesFollowTheScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened, cleaned, waited time.Duration
		left := func(ctx context.Context) time.Duration {
			at, _ := ctx.Deadline()
			return time.Until(at)
		}
		f := &fake{destroy: func(ctx context.Context, _ sdk.VolumeID) error { cleaned = left(ctx); return nil }}
		target := Opened("fake", "", func(ctx context.Context) (sdk.Runtime, func(), error) {
			opened = left(ctx)
			if s := scaleOf(ctx); s != 3 {
				t.Errorf("who opens it hears of the scale %v", s)
			}
			return f, func() {}, nil
		})
		k := probe("case", func(ctx context.Context, c *C) {
			waited = left(ctx)
			c.Volume(ctx)
			if p := c.Patience(time.Second); p != 3*time.Second {
				t.Errorf("a second of patience is %v", p)
			}
		})
		if _, err := Execute(t.Context(), target, Options{Cases: []Case{k}, TimeScale: 3}, nil); err != nil {
			t.Fatal(err)
		}
		if opened != 3*time.Minute || waited != 3*DefaultTimeout || cleaned != 90*time.Second {
			t.Errorf("opening has %v, a case %v, cleaning up %v", opened, waited, cleaned)
		}
	})
	if o := (Options{TimeScale: 3}).withDefaults(); o.HangGrace != 15*time.Second {
		t.Errorf("the grace of what hangs is %v", o.HangGrace)
	}
	for scale, want := range map[float64]float64{0.1: 1, 1: 1, 2.5: 2.5} {
		o := patient(launch.Options{}, scale)
		if o.StartTimeout.Seconds() != startTimeout.Seconds()*want || o.ConfigureTimeout.Seconds() != configureTimeout.Seconds()*want ||
			o.HealthMisses != int(math.Ceil(healthMisses*want)) {
			t.Errorf("at %v a plugin gets %v to start, %v to be configured, and %d misses", scale, o.StartTimeout, o.ConfigureTimeout, o.HealthMisses)
		}
	}
	slow := &launch.Error{Plugin: "suite", Reason: launch.ReasonSilent, Message: "its handshake did not come within 10s of its start"}
	for _, want := range []string{"10s to start", "--time-scale", "a host gives 30s", slow.Error()} {
		if got := (Program{}).tooSlow(slow); !strings.Contains(got.Error(), want) || !errors.Is(got, launch.ReasonSilent) {
			t.Errorf("of a plugin that starts too slowly is said %q, want %q in it", got, want)
		}
	}
	for what, got := range map[string]error{
		"one that died":              (Program{}).tooSlow(&launch.Error{Reason: launch.ReasonDied}),
		"one with the caller's time": (Program{Launch: launch.Options{StartTimeout: time.Second}}).tooSlow(slow),
		"none":                       (Program{}).tooSlow(nil),
	} {
		if got != nil && strings.Contains(got.Error(), "--time-scale") {
			t.Errorf("%s is told of a time that is not its own: %v", what, got)
		}
	}
	if o := patient(launch.Options{StartTimeout: time.Second}, 3); o.StartTimeout != time.Second {
		t.Errorf("a time that the caller names is made %v", o.StartTimeout)
	}
}
