package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
)

func (a *app) artifactsCaches() *cobra.Command {
	var team string
	c := &cobra.Command{
		Use:   "caches [PREFIX]",
		Short: "List caches, those whose keys begin so, and whether they are still valid",
		Long: `List caches, those whose keys begin so, and whether they are still valid.

A cache of KIND resource was kept under its key over the API; "slipway artifacts invalidate" says that it is not what its key stands for any more. One of
KIND task belongs to a step: its key is SCOPE/STEP/PATH. "slipway artifacts rm NAME" removes either.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withArtifacts(c.Context(), func(as artifacts) error {
				list, err := as.listArtifacts(c.Context(), "")
				if err != nil {
					return err
				}
				all := slices.DeleteFunc(cachesIn(list), func(c cached) bool {
					return !strings.HasPrefix(c.Key, strings.Join(args, "")) || team != "" && c.Team != team
				})
				if a.format == formatJSON {
					return writeCachesJSON(a.out, all)
				}
				return writeCaches(a.out, all)
			})
		},
	}
	a.formatFlag(c)
	c.Flags().StringVar(&team, "team", "", "only those of this `team`")
	return c
}

func (a *app) artifactsInvalidate() *cobra.Command {
	var team string
	c := &cobra.Command{
		Use:   "invalidate KEY",
		Short: "Say that a resource cache is not what its key stands for any more",
		Long: `Say that a resource cache is not what its key stands for any more: whoever asks for it from now on is not given it, and makes it anew. Those who
asked before, or for an earlier time, still get it. "slipway artifacts caches" lists the keys.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withArtifacts(c.Context(), func(as artifacts) error { return invalidate(c.Context(), as, team, args[0]) })
		},
	}
	c.Flags().StringVar(&team, "team", "", "the `team` whose cache it is; default nobody's in particular")
	return c
}

// invalidate refuses keys under which there is nothing, which the host takes as done.
func invalidate(ctx context.Context, as artifacts, team, key string) error {
	list, err := as.listArtifacts(ctx, "")
	if err != nil {
		return err
	}
	var keys []string
	for _, c := range slices.Backward(cachesIn(list)) {
		if c.Kind == host.ResourceCache && c.Team == team && !slices.Contains(keys, c.Key) {
			keys = append(keys, c.Key)
		}
	}
	whose := ""
	if team != "" {
		whose = " of team " + team
	}
	switch {
	case slices.Contains(keys, key):
		return as.invalidateCache(ctx, team, key)
	case len(keys) == 0:
		return usageError{fmt.Errorf("there is no resource cache%s under %q, nor any other: see slipway artifacts caches", whose, key)}
	}
	return usageError{fmt.Errorf("there is no resource cache%s under %q: %s", whose, key, host.Choices(key, keys, "the latest are", "slipway artifacts caches"))}
}

// cached is a cache, with what its key is made of.
type cached struct {
	host.ArtifactReport
	Kind host.CacheKind
	Key  string // as whoever keeps it has it
}

func cachesIn(list []host.ArtifactReport) (out []cached) {
	for _, r := range list {
		if kind, key, ok := r.Cache(); ok {
			out = append(out, cached{r, kind, key})
		}
	}
	return out
}

func writeCaches(to *outlet, list []cached) error {
	t := newTable(to, "KEY", "KIND", "TEAM", "VALID", "SIZE", "USED", "EXPIRES", "WHERE", "SOURCE", "NAME")
	for _, c := range list {
		size, valid := "-", "yes"
		if c.Bytes > 0 {
			size = byteSize(c.Bytes)
		}
		if !c.Invalid.IsZero() {
			valid = "until " + c.Invalid.Local().Format(time.DateTime)
		}
		t.row(c.Key, string(c.Kind), dash(c.Team), valid, size, clock(c.Used), clock(c.Expires), cmp.Or(strings.Join(c.Places, ","), "-"), dash(c.Source), c.Name)
	}
	return t.end()
}

type cacheJSON struct {
	Key     string     `json:"key"`
	Kind    string     `json:"kind"` // resource or task
	Team    string     `json:"team,omitempty"`
	Valid   bool       `json:"valid"`
	Invalid *time.Time `json:"invalid,omitempty"` // since when it is not valid
	Bytes   int64      `json:"bytes,omitempty"`   // of its content; left out: unknown
	Made    time.Time  `json:"made"`
	Used    *time.Time `json:"used,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	Places  []string   `json:"places"` // workers, or "host"; none: nowhere
	Source  string     `json:"source,omitempty"`
	Name    string     `json:"name"` // of the artifact that it is
}

func writeCachesJSON(to *outlet, list []cached) error {
	out := make([]cacheJSON, 0, len(list))
	for _, c := range list {
		out = append(out, cacheJSON{Key: c.Key, Kind: string(c.Kind), Team: c.Team, Valid: c.Invalid.IsZero(), Invalid: known(c.Invalid), Bytes: c.Bytes, Made: c.Made,
			Used: known(c.Used), Expires: known(c.Expires), Places: append([]string{}, c.Places...), Source: c.Source, Name: c.Name})
	}
	return to.writeJSON(out)
}

func (e *embedded) invalidateCache(ctx context.Context, team, key string) error {
	return e.h.InvalidateCache(ctx, team, key)
}

func (d *daemon) invalidateCache(ctx context.Context, team, key string) error {
	return d.c.InvalidateCache(ctx, team, key)
}
