package conformance

import (
	"context"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// TestWatch shows that callbacks which break the contract fail a case that does not look at them.
func TestWatch(t *testing.T) {
	record := func(at sdk.Position, data string) sdk.Record {
		return sdk.Record{Position: at, Stream: sdk.Stdout, Data: []byte(data)}
	}
	done := sdk.Exit{Reason: sdk.ExitExited}
	for what, tt := range map[string]struct {
		promise string // empty: nothing is wrong
		play    func(f sdk.Follow)
	}{
		"good": {"", func(f sdk.Follow) {
			f.Opened(sdk.Opened{})
			f.Output([]sdk.Record{record(3, "ab"), {Position: 5, GapTo: 9}, record(9, "c")})
			f.Exit(done)
		}},
		"not opened":      {"5m", func(f sdk.Follow) { f.Output([]sdk.Record{record(3, "a")}) }},
		"opened twice":    {"5m", func(f sdk.Follow) { f.Opened(sdk.Opened{}); f.Opened(sdk.Opened{}) }},
		"a hole":          {"5d", func(f sdk.Follow) { f.Opened(sdk.Opened{}); f.Output([]sdk.Record{record(4, "a")}) }},
		"a step back":     {"5d", func(f sdk.Follow) { f.Opened(sdk.Opened{}); f.Output([]sdk.Record{record(3, "ab"), record(4, "b")}) }},
		"no record":       {"5d", func(f sdk.Follow) { f.Opened(sdk.Opened{}); f.Output(nil) }},
		"an empty record": {"5d", func(f sdk.Follow) { f.Opened(sdk.Opened{}); f.Output([]sdk.Record{record(3, "")}) }},
		"an empty gap":    {"5h", func(f sdk.Follow) { f.Opened(sdk.Opened{}); f.Output([]sdk.Record{{Position: 3, GapTo: 3}}) }},
		"a third stream": {"5d", func(f sdk.Follow) {
			f.Opened(sdk.Opened{})
			f.Output([]sdk.Record{{Position: 3, Stream: 3, Data: []byte("a")}})
		}},
		"late": {"6c", func(f sdk.Follow) { f.Opened(sdk.Opened{}); f.Exit(done); f.Output([]sdk.Record{record(3, "a")}) }},
		"two exits": {"6d", func(f sdk.Follow) {
			f.Opened(sdk.Opened{})
			f.Exit(done)
			f.Exit(done)
		}},
		"a code of 256": {"6d", func(f sdk.Follow) { f.Opened(sdk.Opened{}); f.Exit(sdk.Exit{Reason: sdk.ExitExited, Code: 256}) }},
		"a killed zero": {"6d", func(f sdk.Follow) {
			f.Opened(sdk.Opened{})
			f.Exit(sdk.Exit{Reason: sdk.ExitSignalled, Signal: sdk.KILL})
		}},
		"reason missing": {"6d", func(f sdk.Follow) { f.Opened(sdk.Opened{}); f.Exit(sdk.Exit{}) }},
		"taken back":     {"7e", func(f sdk.Follow) { f.Opened(sdk.Opened{}); f.Taken(5); f.Taken(4) }},
		"two at once": {"5m", func(f sdk.Follow) {
			f.Opened(sdk.Opened{})
			f.Taken(1) // calls Output from inside
		}},
	} {
		t.Run(what, func(t *testing.T) {
			f := &fake{follow: func(_ context.Context, _ sdk.ContainerID, _ sdk.ProcessID, _ sdk.Position, f sdk.Follow) error {
				tt.play(f)
				return nil
			}}
			var inner sdk.Follow // of "two at once"
			r := execute(t, f, Options{}, probe("case", func(ctx context.Context, c *C) {
				own := sdk.Follow{Taken: func(int64) {
					if inner.Output != nil {
						inner.Output([]sdk.Record{record(3, "a")})
					}
				}}
				if what == "two at once" {
					w := &watch{c: c, next: 3}
					inner = w.wrap(own)
					tt.play(inner)
					return
				}
				c.W.FollowProcess(ctx, "c", "p", 3, own)
			})).result(t, "case")
			if tt.promise == "" {
				if r.Status != Pass {
					t.Errorf("%s: %+v", r.Status, r.Failures)
				}
				return
			}
			if r.Status != Fail || r.Failures[0].Promise != tt.promise {
				t.Errorf("%s %+v, want a failure of promise %s", r.Status, r.Failures, tt.promise)
			}
		})
	}
}

func TestCallbackAfterReturn(t *testing.T) {
	var kept sdk.Follow
	f := &fake{follow: func(_ context.Context, _ sdk.ContainerID, _ sdk.ProcessID, _ sdk.Position, f sdk.Follow) error {
		kept = f
		return nil
	}}
	r := execute(t, f, Options{}, probe("case", func(ctx context.Context, c *C) {
		c.W.FollowProcess(ctx, "c", "p", 0, sdk.Follow{})
		kept.Taken(1)
	})).result(t, "case")
	if r.Status != Fail {
		t.Errorf("a callback after the call's return went unseen: %s", r.Status)
	}
}

// TestErrorsThatSayTooLittle shows that each error is held against the closed set of classes.
func TestErrorsThatSayTooLittle(t *testing.T) {
	for what, tt := range map[string]struct {
		err  error
		want Status
	}{
		"good":              {sdk.NewNotFound(sdk.KindVolume, "v"), Pass},
		"class unknown":     {&sdk.Error{Class: "odd"}, Fail},
		"not found of what": {&sdk.Error{Class: sdk.NotFound}, Fail},
		"which feature":     {&sdk.Error{Class: sdk.Unsupported}, Fail},
		"which state":       {&sdk.Error{Class: sdk.FailedPrecondition}, Fail},
	} {
		f := &fake{create: func(context.Context, sdk.VolumeSpec) error { return tt.err }}
		r := execute(t, f, Options{}, probe("case", func(ctx context.Context, c *C) { c.W.CreateVolume(ctx, sdk.VolumeSpec{ID: "v", Token: "t"}) })).result(t, "case")
		if r.Status != tt.want {
			t.Errorf("%s: %s, want %s", what, r.Status, tt.want)
		}
	}
}
