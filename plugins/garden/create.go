package garden

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"code.cloudfoundry.org/garden"
	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/plugins/garden/internal/claim"
	"github.com/slipway-run/slipway/plugins/garden/internal/gdn"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// Where the shim is in every container.
const (
	slipwayDir  = "/slipway"
	binPath     = slipwayDir + "/bin"
	shimPath    = binPath + "/shim"
	scratchPath = slipwayDir + "/scratch"
	certsPath   = "/etc/ssl/certs"
)

// CreateContainer makes a container whole, or nothing is left of it.
func (w *worker) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	if progress == nil {
		progress = func(sdk.Progress) {}
	}
	unlock, err := w.locks.Lock(ctx, string(spec.ID))
	if err != nil {
		return err
	}
	defer unlock()
	list := w.listing()
	made, err := w.before(ctx, spec, &list)
	if made || err != nil {
		return err
	}
	a, err := w.able(ctx) // not before: what is made stays made, also where nothing more can be
	if err != nil {
		return err
	}
	if err := w.supported(spec, a); err != nil {
		return err
	}
	if err := w.begin(ctx, spec.ID, list); err != nil {
		return err
	}
	defer w.end(spec.ID)
	if err := w.create(ctx, spec, a, progress); err != nil {
		undo, cancel := undo(ctx)
		defer cancel()
		if undone := w.undo(undo, spec, err); undone != nil {
			w.log.Error("a container is left half made", "container", spec.ID, "error", undone)
		}
		return err
	}
	return nil
}

// errWhole is why a creation has failed whose container another call has made whole meanwhile, perhaps that of a plugin that was thought dead.
var errWhole = errors.New("another call has made it")

// undo takes away what a creation has left that has failed. What another call has made meanwhile is not its own, with all its volumes, which are called the same.
func (w *worker) undo(ctx context.Context, spec sdk.ContainerSpec, failed error) error {
	if errors.Is(failed, errWhole) {
		return nil
	}
	if f, err := w.recorded(ctx, spec.ID); err == nil && f.token != spec.Token {
		return nil
	}
	return w.remove(ctx, spec.ID, false)
}

// before looks at what there is of the container already: all, nothing, or a half that it takes away.
func (w *worker) before(ctx context.Context, spec sdk.ContainerSpec, list *listing) (made bool, err error) {
	if list.handles, err = w.garden.List(ctx, nil); err != nil {
		return false, err
	}
	if w.over(spec.ID) || !slices.Contains(list.handles, string(spec.ID)) {
		left, there, err := w.store.Lookup(ctx, slipwayVolume(spec.ID))
		switch {
		case err != nil || !there:
			return false, err
		case left.Properties[propToken] != string(spec.Token):
			return false, sdk.NewAlreadyExists(sdk.KindContainer, string(spec.ID))
		case left.Properties[propMade] == yes:
			return false, dead(spec.ID) // it was whole, and is gone: what ran in it must not run again
		}
		return false, w.remove(ctx, spec.ID, false)
	}
	f, err := w.facts(ctx, spec.ID)
	switch {
	case sdk.IsNotFound(err, sdk.KindContainer): // another's
		return false, sdk.NewAlreadyExists(sdk.KindContainer, string(spec.ID))
	case err != nil:
		return false, err
	case f.token != spec.Token:
		return false, sdk.NewAlreadyExists(sdk.KindContainer, string(spec.ID))
	case f.ready:
		return true, nil
	}
	return false, w.remove(ctx, spec.ID, false)
}

// supported refuses what could only be ignored.
func (w *worker) supported(spec sdk.ContainerSpec, a *abilities) error {
	l := spec.Limits
	for _, asked := range []struct {
		feature sdk.Feature
		yes     bool
	}{
		{sdk.FeatureLimitsCPU, l.CPUMillis != 0}, {sdk.FeatureLimitsMemory, l.MemoryBytes != 0}, {sdk.FeatureLimitsPIDs, l.PIDs != 0},
		{sdk.FeatureLimitsDisk, l.DiskBytes != 0}, {sdk.FeaturePrivileged, spec.Privileged}, {sdk.FeatureNetworkNone, spec.Hermetic},
		{sdk.FeatureImageRef, spec.Image.Ref != ""},
	} {
		if asked.yes && !slices.Contains(a.features, asked.feature) {
			return sdk.NewUnsupported(asked.feature)
		}
	}
	for _, m := range spec.Mounts {
		for _, own := range []string{slipwayDir, "/proc", "/sys", "/dev"} {
			if m.Path == own || strings.HasPrefix(m.Path, own+"/") {
				return sdk.NewInvalid(sdk.ReasonPath, "container %q: nothing can be mounted at %q: %s is not the container's own", spec.ID, m.Path, own)
			}
		}
	}
	return nil
}

// create makes the container that is not there. Its lock is held.
func (w *worker) create(ctx context.Context, spec sdk.ContainerSpec, a *abilities, progress func(sdk.Progress)) error {
	needed := make([]sdk.VolumeID, 0, len(spec.Mounts)+1)
	for _, m := range spec.Mounts {
		needed = append(needed, m.Volume)
	}
	if spec.Image.Volume != "" {
		needed = append(needed, spec.Image.Volume)
	}
	shared, release, err := w.store.Share(ctx, needed...)
	if err != nil {
		return err
	}
	defer release()
	for _, m := range spec.Mounts {
		if shared[m.Volume].State == sdk.VolumeSealed && !m.ReadOnly {
			return sealedMount(m)
		}
	}
	progress(sdk.Progress{Phase: "copying", Message: "the container's root"})
	own, err := w.ownVolumes(ctx, spec, shared)
	if err != nil {
		return err
	}
	if a.strict {
		if err := w.makeMountPoints(ctx, spec, own); err != nil {
			return err
		}
	}
	progress(sdk.Progress{Phase: "starting", Message: w.garden.String()})
	if err := w.askFor(ctx, w.gardenSpec(spec, own), spec.Token); err != nil {
		return w.diagnose(ctx, spec, a, err)
	}
	if _, err := w.Start(ctx, spec.ID); err != nil {
		return fmt.Errorf("container %q: its shim does not start: %w", spec.ID, err)
	}
	// First the volume: if the container goes meanwhile, that is known.
	if err := w.store.SetProperty(ctx, slipwayVolume(spec.ID), propMade, yes); err != nil {
		return err
	}
	if err := w.garden.SetProperty(ctx, string(spec.ID), propReady, yes); err != nil {
		return err
	}
	w.know(spec.ID, facts{token: spec.Token, labels: maps.Clone(spec.Labels), dir: spec.Dir, mounts: len(spec.Mounts), writes: writes(spec), ready: true})
	return nil
}

// owned are the volumes of one container, and what its mounts are made of.
type owned struct {
	root    root
	slipway claim.Volume
	mounts  []string // paths on the server, as the spec's mounts
}

func rootVolume(id sdk.ContainerID) string         { return string(id) + ".root" }
func slipwayVolume(id sdk.ContainerID) string      { return string(id) + ".slipway" }
func mountVolume(id sdk.ContainerID, n int) string { return fmt.Sprintf("%s.mount%d", id, n) }

// ownVolumes makes what only this container sees. Volumes that are mounted read-only are cloned where they belong to the other kind of users: those of
// privileged containers are the machine's own, those of others are mapped.
func (w *worker) ownVolumes(ctx context.Context, spec sdk.ContainerSpec, shared map[sdk.VolumeID]claim.Volume) (owned, error) {
	own := owned{mounts: make([]string, len(spec.Mounts))}
	properties := maps.Clone(spec.Labels)
	if properties == nil {
		properties = make(map[string]string)
	}
	properties[propToken], properties[claim.OwnProperty], properties[propMade] = string(spec.Token), string(spec.ID), no
	properties[propWrites] = strings.Join(writes(spec), ",")
	// Where one fails the others go on to their end: a request that is cut may still be carried out, after what failed was taken away.
	var g errgroup.Group
	g.Go(func() (err error) { own.root, err = w.makeRoot(ctx, spec, properties); return err })
	g.Go(func() error {
		base, err := w.shimBase(ctx, spec.Privileged)
		if err != nil {
			return err
		}
		own.slipway, err = w.store.Make(ctx, claim.Own{Handle: slipwayVolume(spec.ID), Clone: base.ID, Privileged: spec.Privileged, Properties: properties})
		return err
	})
	for i, m := range spec.Mounts {
		v := shared[m.Volume]
		switch {
		case v.Privileged == spec.Privileged:
			own.mounts[i] = v.Path
		case !m.ReadOnly:
			return own, errors.Join(sdk.NewInvalid(sdk.ReasonSpec, "container %q: volume %q at %q was made with privileged = %v and the container is not so: their users differ",
				spec.ID, m.Volume, m.Path, v.Privileged), g.Wait())
		case v.State != sdk.VolumeSealed:
			return own, errors.Join(sdk.NewFailedPrecondition(sdk.ReasonNotSealed, sdk.KindVolume, string(m.Volume),
				"container %q: volume %q at %q was made with privileged = %v; seal it to mount it read-only here", spec.ID, m.Volume, m.Path, v.Privileged), g.Wait())
		default:
			g.Go(func() error {
				clone, err := w.store.Make(ctx, claim.Own{Handle: mountVolume(spec.ID, i), Clone: string(m.Volume), Shared: true, Privileged: spec.Privileged, Properties: properties})
				own.mounts[i] = clone.Path
				return err
			})
		}
	}
	return own, g.Wait()
}

// noGrace is for how long the server keeps a container that nobody asks it about: for as long as there may be one. Without, it is what the server's operator
// has set, and a host that is away for longer would find its containers destroyed.
const noGrace = 10 * 365 * 24 * time.Hour

// gardenSpec is the container in Garden's words.
func (w *worker) gardenSpec(spec sdk.ContainerSpec, own owned) garden.ContainerSpec {
	s := garden.ContainerSpec{
		Handle:     string(spec.ID),
		Privileged: spec.Privileged,
		RootFSPath: own.root.uri,
		GraceTime:  noGrace,
		Properties: garden.Properties(maps.Clone(spec.Labels)),
		BindMounts: []garden.BindMount{
			{SrcPath: own.slipway.Path + "/bin", DstPath: binPath, Mode: garden.BindMountModeRO},
			{SrcPath: own.slipway.Path + "/scratch", DstPath: scratchPath, Mode: garden.BindMountModeRW},
		},
		Limits: w.limits(spec.Limits),
	}
	if s.Properties == nil {
		s.Properties = make(garden.Properties)
	}
	s.Properties[propMounts], s.Properties[propWrites] = strconv.Itoa(len(spec.Mounts)), strings.Join(writes(spec), ",")
	s.Properties[propLabels] = strings.Join(slices.Sorted(maps.Keys(spec.Labels)), ",")
	s.Properties[propID], s.Properties[propToken], s.Properties[propDir] = string(spec.ID), string(spec.Token), spec.Dir
	for i, m := range spec.Mounts {
		mode := garden.BindMountModeRO
		if !m.ReadOnly {
			mode = garden.BindMountModeRW
		}
		s.BindMounts = append(s.BindMounts, garden.BindMount{SrcPath: own.mounts[i], DstPath: m.Path, Mode: mode})
	}
	if w.config.Certs != "" && !slices.ContainsFunc(spec.Mounts, func(m sdk.Mount) bool { return m.Path == certsPath }) {
		s.BindMounts = append(s.BindMounts, garden.BindMount{SrcPath: w.config.Certs, DstPath: certsPath, Mode: garden.BindMountModeRO})
	}
	slices.SortStableFunc(s.BindMounts, func(a, b garden.BindMount) int { return strings.Compare(a.DstPath, b.DstPath) }) // outer ones first
	if !spec.Hermetic {
		s.NetOut = w.config.netOut()
	}
	return s
}

// writes names the volumes that a container can write.
func writes(spec sdk.ContainerSpec) (all []string) {
	for _, m := range spec.Mounts {
		if !m.ReadOnly {
			all = append(all, string(m.Volume))
		}
	}
	return all
}

// limits adds to what is asked, or to the operator's default, what the shim takes.
func (w *worker) limits(l sdk.Resources) garden.Limits {
	var g garden.Limits
	pick := func(asked, otherwise int64) int64 {
		if asked != 0 {
			return asked
		}
		return otherwise
	}
	if n := pick(l.CPUMillis, w.config.CPU); n != 0 {
		g.CPU.Weight = shares(n)
		//lint:ignore SA1019 servers from before Weight read this
		g.CPU.LimitInShares = g.CPU.Weight
	}
	if n := pick(l.MemoryBytes, int64(w.config.Memory)); n != 0 {
		g.Memory.LimitInBytes = uint64(n + shim.OverheadMemoryBytes)
	}
	if n := pick(l.PIDs, w.config.PIDs); n != 0 {
		g.Pid.Max = uint64(n + shim.OverheadPIDs)
	}
	if l.DiskBytes != 0 {
		g.Disk.ByteHard, g.Disk.Scope = uint64(l.DiskBytes), garden.DiskLimitScopeExclusive
	}
	return g
}

// shares is a number of thousandths of a core as a weight among those that want the processor: one whole core weighs 1024, as it does for Concourse.
func shares(millis int64) uint64 { return uint64(max(2, millis*1024/1000)) }

// askFor has the server make a container. One that refuses may list it all the same: Concourse's backend leaves what it could not start, and every server may have
// made it just now, for an earlier call that did not wait so long. Which of these it is does not show, so what is listed goes, and the server is asked once more.
func (w *worker) askFor(ctx context.Context, s garden.ContainerSpec, token sdk.Token) error {
	for again := true; ; again = false {
		refused := w.garden.Create(ctx, s)
		if _, ok := errors.AsType[*gdn.Refusal](refused); !ok {
			return refused
		}
		left, err := w.destroyRefused(ctx, s.Handle, token)
		if err != nil {
			return err
		}
		if !left || !again {
			return refused
		}
	}
}

// destroyRefused destroys what a server lists of a container that it refused, and tells whether there was any. Another's stays, and is AlreadyExists.
// One that is whole stays as well, and is Unavailable.
func (w *worker) destroyRefused(ctx context.Context, handle string, token sdk.Token) (left bool, err error) {
	there, err := w.garden.Has(ctx, handle)
	if err != nil || !there {
		return false, err
	}
	f, err := w.facts(ctx, sdk.ContainerID(handle))
	if sdk.IsNotFound(err, sdk.KindContainer) || err == nil && f.token != token {
		return false, sdk.NewAlreadyExists(sdk.KindContainer, handle)
	}
	if err != nil {
		return false, err
	}
	if f.ready { // a process may run in it: who asks again gets it as it is
		return false, sdk.NewUnavailable(errWhole, "container %q: %s refuses it, for it is there by now, made by another call", handle, w.garden)
	}
	return true, w.garden.Destroy(ctx, handle)
}

// diagnose finds out why a server refuses a container that it has none of, for it gives no reason that a program could tell: none can be made now, or this one
// never can.
func (w *worker) diagnose(ctx context.Context, spec sdk.ContainerSpec, a *abilities, refused error) error {
	refusal, ok := errors.AsType[*gdn.Refusal](refused)
	if !ok {
		return refused
	}
	err := w.withBare(ctx, bare{strict: a.strict}, func(string) error { return nil })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, sdk.Unavailable) {
		return err
	}
	if err != nil {
		return &sdk.Error{Class: sdk.Exhausted, Kind: sdk.KindContainer, ID: string(spec.ID), Cause: refused,
			Message: fmt.Sprintf("container %q: %s makes no container now, not even an empty one: %s", spec.ID, w.garden, refusal.Message)}
	}
	// The handle may be taken although it is not listed, see destroyUnlisted. Then an empty container does not get it either, and it is free afterwards.
	err = w.withBare(ctx, bare{strict: a.strict, handle: string(spec.ID)}, func(string) error { return nil })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errRefused):
		return sdk.NewUnavailable(refused, "container %q: %s makes others, but has one of this name that it does not list: %s", spec.ID, w.garden, refusal.Message)
	case err != nil:
		return err
	}
	if at, found, err := w.unmakeable(ctx, spec.Mounts); err != nil {
		return err
	} else if found {
		return &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonPath, Kind: sdk.KindContainer, ID: string(spec.ID), Cause: refused,
			Message: fmt.Sprintf("container %q: nothing can be mounted at %q: the read-only volume around it has no such directory: %s", spec.ID, at, refusal.Message)}
	}
	return &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonImage, Kind: sdk.KindContainer, ID: string(spec.ID), Cause: refused,
		Message: fmt.Sprintf("container %q: %s makes others, but refuses this one, with this image and these mounts: %s", spec.ID, w.garden, refusal.Message)}
}
