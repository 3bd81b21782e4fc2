package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host"
)

// someCaches has caches, and notes which are invalidated.
type someCaches struct {
	artifacts
	list []host.ArtifactReport
	told []string
}

func (s *someCaches) listArtifacts(context.Context, string) ([]host.ArtifactReport, error) {
	return s.list, nil
}

func (s *someCaches) invalidateCache(_ context.Context, team, key string) error {
	s.told = append(s.told, team+" "+key)
	return nil
}

// TestInvalidateCache: a resource cache is invalidated by its key as whoever keeps it has it, and a key under which there is none is refused.
func TestInvalidateCache(t *testing.T) {
	t.Parallel()
	s := &someCaches{list: []host.ArtifactReport{{Key: "resource:/git%2Frepo@1"}, {Key: "resource:shop/git%2Frepo@2", Team: "shop"}, {Key: "task:/job/step/path"}, {Key: "old:resource:/gone"}, {}}}
	for _, c := range []struct{ team, key, refused string }{
		{"", "git/repo@1", ""},
		{"shop", "git/repo@2", ""},
		{"", "git/repo@2", `there is no resource cache under "git/repo@2": the latest are git/repo@1`},
		{"", "job/step/path", "there is no resource cache"},
		{"toys", "git/repo@1", `there is no resource cache of team toys under "git/repo@1", nor any other`},
	} {
		err := invalidate(t.Context(), s, c.team, c.key)
		if (err == nil) != (c.refused == "") || err != nil && (!strings.Contains(err.Error(), c.refused) || !errors.As(err, new(usageError))) {
			t.Errorf("%q of team %q: %v", c.key, c.team, err)
		}
	}
	if got := fmt.Sprintf("%q", s.told); got != `[" git/repo@1" "shop git/repo@2"]` {
		t.Errorf("invalidated were %s", got)
	}
}

// TestListCaches: what is told of caches, for people and for programs.
func TestListCaches(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local)
	list := cachesIn([]host.ArtifactReport{
		{Artifact: host.Artifact{Name: "made"}, Key: "resource:shop/repo@1", Team: "shop", Bytes: 2048, Invalid: at, Used: at, Expires: at, Places: []string{"m", "host"}, Source: "repo"},
		{Artifact: host.Artifact{Name: "tree"}},
		{Artifact: host.Artifact{Name: "cache/1"}, Key: "task:/job/step/c%2Fd"},
	})
	for want, write := range map[string]func(*outlet) error{
		"repo@1 resource shop until 2030-01-02 03:04:05 2.0 KiB 2030-01-02 03:04:05 2030-01-02 03:04:05 m,host repo made": func(o *outlet) error { return writeCaches(o, list) },
		"job/step/c/d task - yes - - - - - cache/1":                                                   func(o *outlet) error { return writeCaches(o, list) },
		`"key":"repo@1","kind":"resource","team":"shop","valid":false,"invalid":"2030-01-02T03:04:05`: func(o *outlet) error { return writeCachesJSON(o, list) },
		`"key":"job/step/c/d","kind":"task","valid":true,`:                                            func(o *outlet) error { return writeCachesJSON(o, list) },
	} {
		f, err := os.CreateTemp(t.TempDir(), "out")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := write(newOutlet(f, "stdout", func(error) {})); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(f.Name())
		if got := strings.Join(strings.Fields(string(b)), " "); err != nil || !strings.Contains(got, want) || strings.Contains(got, "tree") {
			t.Errorf("told is %s, %v\nwant %s", got, err, want)
		}
	}
}
