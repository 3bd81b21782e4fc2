package garden

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"code.cloudfoundry.org/garden"

	"github.com/slipway-run/slipway/plugins/garden/internal/claim"
	"github.com/slipway-run/slipway/sdk"
)

// abilities is what a worker's servers turned out to do.
type abilities struct {
	features []sdk.Feature
	strict   bool   // mount points must be there before
	boot     string // of the machine under the containers; empty: it cannot be seen
}

// bare says how an empty container is made to see whether it works.
type bare struct {
	strict, privileged bool
	handle             string       // empty: one that can be no container's id
	beside             claim.Volume // another container's with its shim, which it then has read-only; zero: one of its own
}

// What a probe asks as limits, to look for them in its own cgroup.
const (
	probeMillis = 1500
	probeMemory = 512 << 20
	probePIDs   = 1000
)

// probing is a look at the servers that is under way.
type probing struct {
	stop  context.CancelFunc
	ended chan struct{} // then the others are set
	found *abilities
	err   error
}

// able gives what the servers can do, which is found out by making containers, once as long as the server is there. The look goes on if ctx ends: a host waits
// ten seconds for a status, and servers that take longer over it would never be known.
func (w *worker) able(ctx context.Context) (*abilities, error) {
	w.mu.Lock()
	if a := w.abilities; a != nil {
		w.mu.Unlock()
		return a, nil
	}
	p := w.probing
	if p == nil {
		ctx, stop := context.WithCancel(w.life)
		p = &probing{stop: stop, ended: make(chan struct{})}
		w.probing = p
		w.looks.Go(func() { w.find(ctx, p) })
	}
	w.mu.Unlock()
	select {
	case <-p.ended:
		if errors.Is(p.err, context.Canceled) && ctx.Err() == nil && w.life.Err() == nil { // by unsure
			return nil, sdk.NewUnavailable(p.err, "a server of worker %q went away during the look at what both can", w.name)
		}
		return p.found, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// find has a look and notes what it found.
func (w *worker) find(ctx context.Context, p *probing) {
	defer close(p.ended)
	defer p.stop()
	if p.found, p.err = w.probe(ctx); p.err != nil {
		p.err = w.noRoom(ctx, p.err)
	} else if doubtful := w.doubtfulLimits(p.found); doubtful != "" {
		w.log.Warn(doubtful)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.probing != p { // a server was away meanwhile
		return
	}
	w.probing = nil
	if p.err == nil {
		w.abilities = p.found
	}
}

// noRoom says what it means that a look has failed. Where both servers answer it is Exhausted, whatever the class was: no container can be made now, and a host
// shall queue what wants one, or place it elsewhere. Unavailable would have it take the worker for away, with its volumes and with what runs there.
func (w *worker) noRoom(ctx context.Context, failed error) error {
	if ctx.Err() != nil || errors.Is(failed, sdk.Exhausted) {
		return failed
	}
	pinging, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if w.garden.Ping(pinging) != nil || w.store.Ping(pinging) != nil {
		return failed
	}
	return &sdk.Error{Class: sdk.Exhausted, Message: fmt.Sprintf("%s and %s answer, but make no container now, not even an empty one: %v", w.garden, w.store, failed)}
}

// unsure has the next call probe again: a server was away, and may be another one now.
func (w *worker) unsure() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.probing != nil { // it may be waiting for what will never answer
		w.probing.stop()
		w.probing = nil
	}
	if w.abilities != nil {
		w.former, w.abilities = w.abilities, nil
	}
}

// presumed are the features of a worker that makes no container, or is without its Garden server, so that nobody can look: what it had before, or else whatever
// its servers may have. A container is made only after a look.
func (w *worker) presumed(ctx context.Context) []sdk.Feature {
	w.mu.Lock()
	former := w.former
	w.mu.Unlock()
	if former != nil {
		return former.features
	}
	features, _ := w.store.Features(ctx) // where its disk is full they are not to be found out, either
	features = append(slices.Concat(features, w.configured()),
		sdk.FeatureUsers, sdk.FeatureTTY, sdk.FeatureTTYResize, sdk.FeatureExitOOM, sdk.FeatureLimitsMemory, sdk.FeatureLimitsPIDs, sdk.FeatureLimitsCPU)
	if w.config.Privileged == "allow" {
		features = append(features, sdk.FeaturePrivileged)
	}
	if w.config.Hermetic == "probe" {
		features = append(features, sdk.FeatureNetworkNone)
	}
	return features
}

// configured are the features that follow from the settings alone.
func (w *worker) configured() []sdk.Feature {
	features := []sdk.Feature{sdk.FeatureImageVolume}
	if w.config.ImagePlugin || len(w.config.ResourceType) > 0 {
		features = append(features, sdk.FeatureImageRef)
	}
	for _, t := range w.config.ResourceType {
		features = append(features, sdk.Feature(sdk.ResourceTypePrefix+t.Name))
	}
	if w.config.Hermetic == "net-out" {
		features = append(features, sdk.FeatureNetworkNone)
	}
	return features
}

func (w *worker) probe(ctx context.Context) (*abilities, error) {
	if err := w.sweepProbes(ctx); err != nil {
		return nil, err
	}
	features, err := w.store.Features(ctx)
	if err != nil {
		return nil, err
	}
	a := &abilities{features: slices.Concat(features, w.configured())}
	look := func(handle string) error { return w.look(ctx, handle, a) }
	err = w.withBare(ctx, bare{}, look)
	if errors.Is(err, errRefused) {
		a.strict = true
		err = w.withBare(ctx, bare{strict: true}, look)
	}
	if errors.Is(err, errRefused) {
		return nil, &sdk.Error{Class: sdk.Exhausted, Message: fmt.Sprintf("%s makes no container now, not even an empty one: %v", w.garden, err), Cause: errRefused}
	}
	if err != nil {
		return nil, err
	}
	if w.config.Privileged == "allow" {
		err := w.withBare(ctx, bare{strict: a.strict, privileged: true}, func(string) error { return nil })
		switch {
		case errors.Is(err, errRefused):
			w.log.Warn("privileged containers are allowed, but the server cannot make them", "error", err)
		case err != nil:
			return nil, err
		default:
			a.features = append(a.features, sdk.FeaturePrivileged)
		}
	}
	slices.Sort(a.features)
	a.features = slices.Compact(a.features)
	return a, nil
}

// look finds out what can be seen from within a container.
func (w *worker) look(ctx context.Context, handle string, a *abilities) error {
	id := sdk.ContainerID(handle)
	w.mark(w.making, id, true)
	defer w.mark(w.making, id, false)
	info, err := w.Start(ctx, id)
	if err != nil {
		return err
	}
	for _, note := range info.Notes {
		w.log.Info("processes in containers", "note", note)
	}
	a.features = append(a.features, info.Features...)
	read := func(name string) string {
		var b bytes.Buffer
		if w.ReadFile(ctx, id, "/", name, 0, 4<<10, &b) != nil {
			return "" // not every server shows it
		}
		return strings.TrimSpace(b.String())
	}
	a.boot = read("proc/sys/kernel/random/boot_id")
	// Limits that a server only takes and forgets must not be named: what holds stands in the container's own cgroup.
	memory, pids := strconv.Itoa(probeMemory), strconv.Itoa(probePIDs)
	for feature, holds := range map[sdk.Feature]bool{
		sdk.FeatureLimitsMemory: read("sys/fs/cgroup/memory/memory.limit_in_bytes") == memory || read("sys/fs/cgroup/memory.max") == memory,
		sdk.FeatureLimitsPIDs:   read("sys/fs/cgroup/pids/pids.max") == pids || read("sys/fs/cgroup/pids.max") == pids,
		sdk.FeatureLimitsCPU:    read("sys/fs/cgroup/cpu/cpu.shares") == strconv.FormatUint(shares(probeMillis), 10) || !slices.Contains([]string{"", "100"}, read("sys/fs/cgroup/cpu.weight")),
		sdk.FeatureNetworkNone:  w.config.Hermetic == "probe" && onlyLoopback(read("proc/net/dev")),
	} {
		if holds {
			a.features = append(a.features, feature)
		}
	}
	return ctx.Err()
}

// onlyLoopback reads /proc/net/dev: two lines of headings, then a device each.
func onlyLoopback(dev string) bool {
	lines := strings.Split(dev, "\n")
	if len(lines) != 3 {
		return false
	}
	name, _, _ := strings.Cut(strings.TrimSpace(lines[2]), ":")
	return name == "lo"
}

// errRefused says that a server made no container, although it was there.
var errRefused = errors.New("the server refuses")

// withBare makes an empty container without a network, for as long as do takes.
func (w *worker) withBare(ctx context.Context, b bare, do func(handle string) error) (err error) {
	name := "slipway.probe-" + strings.ToLower(rand.Text())
	handle, rootHandle, slipwayHandle := cmp.Or(b.handle, name), name+".root", name+".slipway"
	defer func() {
		undo, cancel := undo(ctx)
		defer cancel()
		err := w.garden.Destroy(undo, handle)
		w.Forget(sdk.ContainerID(handle))
		if left := errors.Join(err, w.store.Remove(undo, rootHandle, slipwayHandle)); left != nil {
			w.log.Warn("a probe's container is left; it is removed by a later start", "handle", handle, "error", left)
		}
	}()
	properties := map[string]string{claim.OwnProperty: name, propProbe: strconv.FormatInt(time.Now().Unix(), 10)}
	slipway, scratch := b.beside, garden.BindMountModeRO
	if slipway.ID == "" {
		scratch = garden.BindMountModeRW
		base, err := w.shimBase(ctx, b.privileged)
		if err != nil {
			return err
		}
		slipway, err = w.store.Make(ctx, claim.Own{Handle: slipwayHandle, Clone: base.ID, Privileged: b.privileged, Properties: properties})
		if err != nil {
			return err
		}
	}
	top, err := w.store.Make(ctx, claim.Own{Handle: rootHandle, Privileged: b.privileged, Properties: properties})
	if err != nil {
		return err
	}
	if b.strict {
		points, _ := tree{"": {kind: isDir}}.missing(append(serverPoints(), binPath, scratchPath))
		if err := w.store.Put(ctx, rootHandle, "", directories(points)); err != nil {
			return err
		}
	}
	err = w.garden.Create(ctx, garden.ContainerSpec{
		Handle: handle, Privileged: b.privileged, RootFSPath: "raw://" + top.Path,
		Properties: garden.Properties{propProbe: properties[propProbe]},
		BindMounts: []garden.BindMount{
			{SrcPath: slipway.Path + "/bin", DstPath: binPath, Mode: garden.BindMountModeRO},
			{SrcPath: slipway.Path + "/scratch", DstPath: scratchPath, Mode: scratch},
		},
		Limits: garden.Limits{
			//lint:ignore SA1019 servers from before Weight read the other
			CPU:    garden.CPULimits{Weight: shares(probeMillis), LimitInShares: shares(probeMillis)},
			Memory: garden.MemoryLimits{LimitInBytes: probeMemory},
			Pid:    garden.PidLimits{Max: probePIDs},
		},
	})
	if sdk.ClassOf(err) == sdk.Internal {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if err != nil {
		return err
	}
	return do(handle)
}

// probeAge is how old a probe's container must be to be somebody's who was killed.
const probeAge = 10 * time.Minute

// sweepProbes takes away what plugins that were killed in the midst of a probe have left.
func (w *worker) sweepProbes(ctx context.Context) error {
	old := func(made string) bool {
		seconds, err := strconv.ParseInt(made, 10, 64)
		return err == nil && time.Since(time.Unix(seconds, 0)) > probeAge
	}
	handles, err := w.garden.List(ctx, nil)
	if err != nil {
		return err
	}
	for _, handle := range handles {
		if !strings.HasPrefix(handle, "slipway.probe-") {
			continue
		}
		p, err := w.garden.Properties(ctx, handle)
		if err == nil && old(p[propProbe]) {
			err = w.garden.Destroy(ctx, handle)
		}
		if err != nil && !sdk.IsNotFound(err, sdk.KindContainer) {
			w.log.Warn("a probe's container of a plugin that was killed is left", "handle", handle, "error", err)
		}
	}
	volumes, err := w.store.Owned(ctx, nil)
	if err != nil {
		return err
	}
	var gone []string
	for _, v := range volumes {
		if old(v.Properties[propProbe]) {
			gone = append(gone, v.ID)
		}
	}
	if err := w.store.Remove(ctx, gone...); err != nil {
		w.log.Warn("a probe's volumes of a plugin that was killed are left", "volumes", gone, "error", err)
	}
	return ctx.Err()
}
