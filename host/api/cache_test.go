package api

import (
	"context"
	"io"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestResourceCaches: a client finds what it has kept under a key, of its team alone, until it says that it is stale; what is a run's is not kept.
func TestResourceCaches(t *testing.T) {
	s := serve(t)
	defer s.stop()
	ctx := testkit.Context(t)
	find := func(team string, at time.Time) (string, error) {
		req := &pb.FindCacheRequest{Team: team, Key: "repo@1"}
		if !at.IsZero() {
			req.ValidAt = timestamppb.New(at)
		}
		r, err := s.artifacts.FindCache(ctx, connect.NewRequest(req))
		if err != nil {
			return "", s.err(ctx, err)
		}
		return r.Msg.GetArtifact(), nil
	}
	var valid string // as KeepCache has said last
	keep := func(req *pb.KeepCacheRequest) error {
		r, err := s.artifacts.KeepCache(ctx, connect.NewRequest(req))
		if err == nil {
			valid = r.Msg.GetArtifact()
		}
		return s.err(ctx, err)
	}
	if got, err := find("shop", time.Time{}); sdk.ClassOf(err) != sdk.NotFound {
		t.Errorf("nothing was kept: %q, %v", got, err)
	}
	must(t, s.Upload(ctx, host.Upload{Name: "made"}, func(_ context.Context, w io.Writer) error {
		return stream.PackFiles([]stream.File{{Name: "f", Data: []byte("x")}}, w)
	}))
	for range 2 {
		must(t, keep(&pb.KeepCacheRequest{Artifact: "made", Team: "shop", Key: "repo@1", Source: "repo, version 1", Ttl: durationpb.New(time.Hour)}))
		if valid != "made" {
			t.Errorf("once it is kept, %q is said to be valid", valid)
		}
	}
	if got, err := find("shop", time.Time{}); err != nil || got != "made" {
		t.Errorf("kept: %q, %v", got, err)
	}
	if got, err := find("other", time.Time{}); sdk.ClassOf(err) != sdk.NotFound {
		t.Errorf("of another team: %q, %v", got, err)
	}
	list, err := s.artifacts.ListArtifacts(ctx, connect.NewRequest(&pb.ListArtifactsRequest{Prefix: "made"}))
	must(t, err)
	if a := list.Msg.GetArtifacts(); len(a) != 1 || a[0].GetSource() != "repo, version 1" || a[0].GetTeam() != "shop" ||
		!a[0].GetExpiresAt().AsTime().Equal(a[0].GetUsedAt().AsTime().Add(time.Hour)) {
		t.Errorf("it is told as %v", a)
	}
	for name, req := range map[string]*pb.KeepCacheRequest{
		"no key":           {Artifact: "made"},
		"another key":      {Artifact: "made", Key: "repo@2"},
		"negative TTL":     {Artifact: "made", Key: "repo@1", Ttl: durationpb.New(-1)},
		"no such artifact": {Artifact: "none", Key: "repo@1"},
	} {
		want := sdk.Invalid
		if req.GetArtifact() == "none" {
			want = sdk.NotFound
		}
		if err := keep(req); sdk.ClassOf(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	before := time.Now()
	must(t, s.InvalidateCache(ctx, "shop", "repo@1"))
	told, err := s.Artifacts(ctx, "made")
	must(t, err)
	if kind, key, ok := told[0].Cache(); len(told) != 1 || !ok || kind != host.ResourceCache || key != "repo@1" || told[0].Invalid.Before(before) {
		t.Errorf("once it is stale it is told as %+v", told)
	}
	if got, err := find("shop", time.Time{}); sdk.ClassOf(err) != sdk.NotFound {
		t.Errorf("stale: %q, %v", got, err)
	}
	if got, err := find("shop", before.Add(-time.Hour)); err != nil || got != "made" {
		t.Errorf("as it was an hour ago: %q, %v", got, err)
	}
	if err := keep(&pb.KeepCacheRequest{Artifact: "made", Team: "shop", Key: "repo@1"}); err != nil || valid != "" {
		t.Errorf("kept again once it is stale: %v, and %q is said to be valid", err, valid)
	}
	s.begin(t, &pb.StartRunRequest{Id: "r", Outputs: map[string]string{"out": "somewhere"}}, "echo made > out/file")
	s.until(t, "r", KindOutput)
	of, err := s.artifacts.ListArtifacts(ctx, connect.NewRequest(&pb.ListArtifactsRequest{Prefix: "run/r/"}))
	must(t, err)
	if len(of.Msg.GetArtifacts()) != 1 {
		t.Fatalf("the run has %v", of.Msg.GetArtifacts())
	}
	if err := keep(&pb.KeepCacheRequest{Artifact: of.Msg.GetArtifacts()[0].GetName(), Key: "mine"}); sdk.ClassOf(err) != sdk.Invalid {
		t.Errorf("of a run: %v", err)
	}
}
