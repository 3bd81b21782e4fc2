package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// decide says what has to stay as it is. It changes nothing.
func (r *reload) decide(ctx context.Context) error {
	for _, w := range r.wanted.Workers {
		if before, was := workerOf(r.old, w.Name); was && before.Plugin != w.Plugin {
			r.kept[w.Name] = true
			r.tell(Change{What: worded("worker", w.Name), Kind: ChangeLater, Why: fmt.Sprintf("it is of plugin %q while the host runs: another can have it only after that", before.Plugin)})
		}
	}
	for _, w := range r.old.Workers {
		if _, is := workerOf(r.wanted, w.Name); is {
			continue
		}
		for _, found := range r.hold(w.Name) {
			used, err := r.h.usedThere(ctx, found.name, everyVolume)
			if err != nil {
				return err
			}
			if used != "" {
				r.kept[w.Name] = true
				r.tell(Change{What: worded("worker", w.Name), Kind: ChangeRefused,
					Why: fmt.Sprintf("%s: it takes no new work from now on; empty it with \"slipway workers retire %s\", and reload then", used, found.name)})
				break
			}
		}
	}
	for settled := false; !settled; {
		next := r.effective()
		settled = true
		for _, p := range r.h.allPlugins() {
			if r.frozen[p.cfg.Name] || !p.differs(next) {
				continue
			}
			stays, err := r.obstacle(ctx, p)
			if err != nil {
				return err
			}
			if stays != nil { // which may be in the way of others
				r.frozen[p.cfg.Name], settled = true, false
				r.tell(*stays)
			}
		}
	}
	next := r.effective()
	for _, p := range r.old.Plugins {
		_, is := pluginOf(r.wanted, p.Name)
		if _, stays := pluginOf(next, p.Name); !is && stays && !r.frozen[p.Name] {
			r.tell(Change{What: worded("plugin", p.Name), Kind: ChangeRefused, Why: "a worker of it stays"})
		}
	}
	return nil
}

func worded(what, name string) string { return fmt.Sprintf("%s %q", what, name) }

// obstacle is why a plugin's process cannot be ended now; nil: it can.
func (r *reload) obstacle(ctx context.Context, p *plugin) (*Change, error) {
	what := worded("plugin", p.cfg.Name)
	if r.h.opts.Runtimes[p.cfg.Name] != nil {
		return &Change{What: what, Kind: ChangeLater, Why: "it is a part of this program"}, nil
	}
	held, used, err := r.h.holdVolatile(ctx, p)
	r.held = append(r.held, held...)
	if err != nil || used == "" {
		return nil, err
	}
	return &Change{What: what, Kind: ChangeRefused, Why: fmt.Sprintf("what its workers have ends with its process, and %s: reload when nothing is there", used)}, nil
}

// holdVolatile keeps new work from those workers of a plugin whose things end with its process, and tells what would be lost on them.
func (h *Host) holdVolatile(ctx context.Context, p *plugin) (held []*worker, used string, err error) {
	if !p.proc.State().State.Runs() { // what ends with its process has ended
		return nil, "", nil
	}
	for _, w := range h.sortedWorkers() {
		if w.plugin != p.cfg.Name || !w.endsWithPlugin() {
			continue
		}
		w.hold("its plugin is to be restarted")
		h.tellPlacement(w)
		held = append(held, w)
		used, err = h.usedThere(ctx, w.name, func(tx *store.Tx, v store.Volume) (bool, error) {
			if v.Artifact == "" {
				return false, nil // its container counts
			}
			_, is, err := h.onlyThere(tx, v)
			return is, err
		})
		if err != nil || used != "" {
			return held, used, err
		}
	}
	return held, "", nil
}

// everyVolume is for usedThere.
func everyVolume(*store.Tx, store.Volume) (bool, error) { return true, nil }

// usedThere tells what is on a worker, empty if nothing is, of volumes those that count.
func (h *Host) usedThere(ctx context.Context, name string, counts func(*store.Tx, store.Volume) (bool, error)) (string, error) {
	leases := h.index.Leases(name) // before the rows: a container has either at any moment
	owners := make(map[string]bool)
	for _, l := range leases {
		owners[l.Owner] = true
	}
	volumes := 0
	err := h.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Containers(presentOn(name))
		if err != nil {
			return err
		}
		for _, row := range rows {
			owners[row.Owner] = true
		}
		all, err := tx.Volumes(store.VolumeFilter{Worker: name})
		if err != nil {
			return err
		}
		for _, v := range all {
			is, err := counts(tx, v)
			if err != nil {
				return err
			}
			if is {
				volumes++
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return inWords(name, slices.Sorted(maps.Keys(owners)), volumes), nil
}

// inWords tells what is on a worker; empty: nothing.
func inWords(worker string, owners []string, volumes int) string {
	var parts []string
	verb := "is"
	switch {
	case len(owners) == 1:
		parts = append(parts, "the container of "+owners[0])
	case len(owners) > 1:
		verb = "are"
		parts = append(parts, "the containers of "+list(owners))
	case volumes > 1:
		verb = "are"
	}
	if volumes > 0 {
		parts = append(parts, plural(volumes, "volume"))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("on %s there %s %s", worker, verb, strings.Join(parts, ", and "))
}

// presentOn filters the containers on a worker that are not over.
func presentOn(worker string) store.ContainerFilter {
	return store.ContainerFilter{Worker: worker, States: []string{lifecycle.ContainerCreating, lifecycle.ContainerReady, lifecycle.ContainerDestroying}}
}

// differs tells whether a plugin has to be given another process, or none, to be as a configuration says.
func (p *plugin) differs(cfg *config.Config) bool {
	b, is := pluginOf(cfg, p.cfg.Name)
	if !is {
		return true
	}
	now, next := p.blocks.Load(), blocksOf(cfg, p.cfg.Name)
	if len(now.list) != len(next.list) {
		return true
	}
	own := p.h.opts.Runtimes[p.cfg.Name] != nil // which is configured already
	info := p.proc.State().Info
	for _, w := range next.list {
		before, was := now.byName[w.Name]
		if !was || !own && !sameBody(before.Body, w.Body, info.WorkerSchema) {
			return true
		}
	}
	return !own && (p.proc.State().Failing() || !sameProgram(p.cfg, b) || p.dir != cfg.Dir() || !sameBody(p.cfg.Body, b.Body, info.PluginSchema))
}

func sameProgram(a, b config.Plugin) bool {
	return a.Command == b.Command && slices.Equal(a.Args, b.Args) && maps.Equal(a.Env, b.Env) && a.SHA256 == b.SHA256
}

// sameBody tells whether two blocks say the same to a plugin, wherever and however they say it.
func sameBody(a, b hcl.Body, schema sdk.Schema) bool {
	if a == nil && b == nil {
		return true
	}
	x, bad := config.Decode(a, schema, hcl.Range{})
	y, worse := config.Decode(b, schema, hcl.Range{})
	return !bad.HasErrors() && !worse.HasErrors() && bytes.Equal(x, y)
}

// checkBlocks wants all settings of plugins and workers to be what the plugins take, and plugins that are new, or other programs, to start.
func (h *Host) checkBlocks(ctx context.Context, cfg *config.Config) error {
	for _, c := range cfg.Plugins {
		now := h.plugin(c.Name)
		p := h.newPlugin(cfg, c)
		var err error
		switch {
		case h.opts.Runtimes[c.Name] != nil:
		case now == nil || !sameProgram(now.cfg, c) || now.dir != p.dir:
			err = p.probe(ctx)
		case tried(ctx, now.proc, 1) == nil || !reflect.ValueOf(now.proc.State().Info).IsZero(): // else it has never run, and is tried again
			_, _, err = p.configure(ctx, now.proc.State().Info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errProbed ends the start of a plugin whose settings are good.
var errProbed = errors.New("this was only to see whether it starts")

// probe starts the plugin's program, checks its settings by what it says of itself, and ends it.
func (p *plugin) probe(ctx context.Context) error {
	good := false
	spec := p.spec(func(ctx context.Context, info sdk.PluginInfo) (sdk.Block, []sdk.Block, error) {
		block, workers, err := p.configure(ctx, info)
		if err == nil {
			good, err = true, errProbed
		}
		return block, workers, err
	})
	opts := p.h.launchOptions()
	opts.Logger = slog.New(slog.DiscardHandler) // what it has to say is in the error
	defer p.h.waits.on(p.toStart)()
	proc := launch.Start(spec, opts)
	failure := tried(ctx, proc, 1)
	if err := proc.Stop(ctx); err != nil {
		return err
	}
	if good || failure == nil {
		return ctx.Err()
	}
	if bad, ok := errors.AsType[*ConfigError](failure); ok {
		return bad
	}
	return &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonConfig, Message: failure.Error(), Cause: failure}
}
