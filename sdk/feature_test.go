package sdk_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// Workers of one ability each: only their types matter here.
type (
	resizer struct{ sdk.Worker }
	reader  struct {
		sdk.Worker
		sdk.FileReader
	}
	sender struct {
		sdk.Worker
		sdk.PeerStreamer
	}
)

func (resizer) ResizeProcess(_ context.Context, _ sdk.ContainerID, _ sdk.ProcessID, size sdk.TTY) error {
	if size.Columns == 0 {
		return io.ErrNoProgress
	}
	return nil
}

func TestStripFeaturesTakesWhatTheTypeLacks(t *testing.T) {
	named := []sdk.Feature{sdk.FeatureTTY, sdk.FeatureTTYResize, "new", sdk.FeatureFileRead, sdk.FeaturePeerStream, sdk.FeatureUsers}
	for name, c := range map[string]struct {
		w    sdk.Worker
		want []sdk.Feature
	}{
		"plain":        {struct{ sdk.Worker }{}, []sdk.Feature{sdk.FeatureTTY, "new", sdk.FeatureUsers}},
		"resizer":      {resizer{}, []sdk.Feature{sdk.FeatureTTY, sdk.FeatureTTYResize, "new", sdk.FeatureUsers}},
		"file reader":  {reader{}, []sdk.Feature{sdk.FeatureTTY, "new", sdk.FeatureFileRead, sdk.FeatureUsers}},
		"peer streams": {sender{}, []sdk.Feature{sdk.FeatureTTY, "new", sdk.FeaturePeerStream, sdk.FeatureUsers}},
	} {
		before := sdk.Status{Health: sdk.Healthy, Zone: "z", Features: slices.Clone(named)}
		after := sdk.StripFeatures(c.w, before)
		if !slices.Equal(after.Features, c.want) || after.Health != sdk.Healthy || after.Zone != "z" {
			t.Errorf("%s: %+v, want the features %v", name, after, c.want)
		}
		if !slices.Equal(before.Features, named) {
			t.Errorf("%s: the caller's slice became %v", name, before.Features)
		}
	}
	if s := sdk.StripFeatures(resizer{}, sdk.Status{}); len(s.Features) != 0 {
		t.Errorf("out of nothing came %v", s.Features)
	}
}

func TestFallbacksOfOptionalAbilities(t *testing.T) {
	ctx := t.Context()
	lacks := func(err error, f sdk.Feature) {
		t.Helper()
		e, ok := errors.AsType[*sdk.Error](err)
		if !ok || e.Class != sdk.Unsupported || e.Feature != f {
			t.Errorf("got %v, want Unsupported of %q", err, f)
		}
	}
	plain := struct{ sdk.Worker }{}
	lacks(sdk.ResizeProcess(ctx, plain, "c", "p", sdk.TTY{}), sdk.FeatureTTYResize)

	if err := sdk.ResizeProcess(ctx, resizer{}, "c", "p", sdk.TTY{Columns: 1}); err != nil {
		t.Error(err)
	}
	if err := sdk.ResizeProcess(ctx, resizer{}, "c", "p", sdk.TTY{}); err != io.ErrNoProgress {
		t.Errorf("the worker's own error came back as %v", err)
	}
}
