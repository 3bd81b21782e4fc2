package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// States of a container's row.
const (
	containerCreating   = "creating"   // the claim of its owner; nothing is promised of the worker
	containerReady      = "ready"      // the worker has it
	containerDestroying = "destroying" // to be destroyed as soon as the worker can be reached
	containerDestroyed  = "destroyed"  // only the record is left, of what ran in it
	containerLost       = "lost"       // gone behind the host's back
)

// ContainerRequest says what container an owner wants.
type ContainerRequest struct {
	Team     string   // empty: only shared workers
	Runtime  string   // a plugin's name; empty: any
	Platform string   // empty: any
	Tags     []string // all must be on the worker; with none, only workers without tags
	Kind     pool.Kind

	Image    *Artifact // its rootfs/ becomes the root, its metadata.json the defaults; nil: none
	ImageRef string    // or the runtime's own reference
	Dir      string    // absolute; where relative paths begin; empty: DefaultDir
	Inputs   []Input
	Outputs  []Output

	Limits     sdk.Resources
	Privileged bool
	Hermetic   bool
	Features   []sdk.Feature // that its processes will need: they cannot be added later

	// Observe is told of waiting, placement, streams and progress; it must not block. Nil: nobody is.
	Observe func(Event)
}

// Input puts a writable copy of an artifact into a container.
type Input struct {
	Artifact *Artifact
	Path     string // relative: below the container's Dir
}

// Output makes what a container leaves at a path an artifact. At the path of an input it goes on from that input's copy.
type Output struct {
	Name string
	Path string // relative: below the container's Dir
}

// Container is a container of an owner.
type Container struct {
	h      *Host
	id     sdk.ContainerID
	owner  string
	worker *worker
	state  string // of its row, when the handle was made
	record containerRecord
	image  imageDefaults
}

// containerRecord is what the store keeps of a container besides its states. It holds no environment.
type containerRecord struct {
	Spec    sdk.ContainerSpec
	Team    string
	Kind    pool.Kind
	Outputs map[string]string // volume by name
}

// Container finds the owner's container or makes it, however often and from however many callers it is asked for, and
// across crashes. What the request says counts only when it is made. An owner whose container is over gets it too: what ran
// in it can still be asked for, and nothing new be started.
func (h *Host) Container(ctx context.Context, owner string, req ContainerRequest) (*Container, error) {
	if err := checkOwner(owner); err != nil {
		return nil, err
	}
	plan, err := req.plan()
	if err != nil {
		return nil, fmt.Errorf("container of %s: %w", owner, err)
	}
	observe, leave := whileHere(req.Observe)
	defer leave()
	req.Observe = observe
	c, err := h.owners.do(ctx, owner, func(ctx context.Context) (*Container, error) { return h.findOrCreate(ctx, owner, req, plan) })
	if err != nil {
		return nil, fmt.Errorf("container of %s: %w", owner, err)
	}
	return c, nil
}

// whileHere gives an observer that is told nothing any more once leave has returned: others may go on with what a caller began.
func whileHere(observe func(Event)) (_ func(Event), leave func()) {
	if observe == nil {
		return nil, func() {}
	}
	var mu sync.RWMutex
	left := false
	return func(e Event) {
			mu.RLock()
			defer mu.RUnlock()
			if !left {
				observe(e)
			}
		}, func() {
			mu.Lock()
			defer mu.Unlock()
			left = true
		}
}

// plan is a request with its paths resolved and its defaults filled in.
type plan struct {
	dir     string
	mounts  []plannedMount
	needs   []sdk.Feature
	wanting []pool.Content
}

type plannedMount struct {
	path   string
	input  *Artifact // nil: begins empty
	output string    // empty: none
}

func (r ContainerRequest) plan() (plan, error) {
	p := plan{dir: r.Dir, needs: slices.Clone(r.Features)}
	if p.dir == "" {
		p.dir = DefaultDir
	}
	if !path.IsAbs(p.dir) {
		return p, sdk.NewInvalid(sdk.ReasonPath, "dir %q is not absolute", p.dir)
	}
	var err error
	if p.dir, err = resolvePath("/", p.dir); err != nil {
		return p, err
	}
	for _, in := range r.Inputs {
		at, err := resolvePath(p.dir, in.Path)
		if err != nil {
			return p, fmt.Errorf("input %s: %w", in.Artifact.Name, err)
		}
		for _, m := range p.mounts {
			if m.path == at {
				return p, sdk.NewInvalid(sdk.ReasonPath, "inputs %s and %s are both at %s", m.input.Name, in.Artifact.Name, at)
			}
		}
		p.mounts = append(p.mounts, plannedMount{path: at, input: in.Artifact})
		p.wanting = append(p.wanting, pool.Content{Key: in.Artifact.ID})
	}
	for _, out := range r.Outputs {
		at, err := resolvePath(p.dir, out.Path)
		if err != nil {
			return p, fmt.Errorf("output %s: %w", out.Name, err)
		}
		i := slices.IndexFunc(p.mounts, func(m plannedMount) bool { return m.path == at })
		if i < 0 {
			p.mounts = append(p.mounts, plannedMount{path: at, output: out.Name})
			continue
		}
		if p.mounts[i].output != "" {
			return p, sdk.NewInvalid(sdk.ReasonPath, "outputs %s and %s are both at %s", p.mounts[i].output, out.Name, at)
		}
		p.mounts[i].output = out.Name
	}
	need := func(want bool, f sdk.Feature) {
		if want && !slices.Contains(p.needs, f) {
			p.needs = append(p.needs, f)
		}
	}
	need(r.Image != nil, sdk.FeatureImageVolume)
	need(r.ImageRef != "", sdk.FeatureImageRef)
	need(r.Privileged, sdk.FeaturePrivileged)
	need(r.Hermetic, sdk.FeatureNetworkNone)
	need(r.Limits.CPUMillis > 0, sdk.FeatureLimitsCPU)
	need(r.Limits.MemoryBytes > 0, sdk.FeatureLimitsMemory)
	need(r.Limits.DiskBytes > 0, sdk.FeatureLimitsDisk)
	need(r.Limits.PIDs > 0, sdk.FeatureLimitsPIDs)
	return p, nil
}

func (r ContainerRequest) tell(e Event) {
	if r.Observe != nil {
		e.Time = time.Now()
		r.Observe(e)
	}
}

func (h *Host) findOrCreate(ctx context.Context, owner string, req ContainerRequest, p plan) (*Container, error) {
	row, err := h.containerByOwner(ctx, owner)
	if err == nil {
		var c *Container
		if c, err = h.found(ctx, row); err == nil {
			return c, nil
		}
	}
	if !errors.Is(err, store.ErrNotFound) { // it is so too when settling has just undone what an earlier host began
		return nil, err
	}
	exclude := make(map[string]string)
	for attempt := 1; ; attempt++ {
		spec := pool.Spec{Team: req.Team, Platform: req.Platform, Runtime: req.Runtime, Tags: req.Tags, Kind: req.Kind,
			Inputs: p.wanting, Exclude: exclude}
		for _, f := range p.needs {
			spec.Features = append(spec.Features, string(f))
		}
		req.tell(Event{Kind: EventWaiting})
		choice, err := h.queue.Acquire(ctx, owner, spec)
		if err != nil {
			return nil, err
		}
		req.tell(Event{Kind: EventPlaced, Worker: choice.Worker})
		c, err := h.create(ctx, owner, choice.Worker, req, p)
		if err == nil {
			return c, nil
		}
		h.index.Release(owner)
		// No start was sent, so it may be tried again: elsewhere if this worker cannot, here too if it came back as another one.
		var gone *WorkerGoneError
		switch {
		case ctx.Err() != nil || h.ctx.Err() != nil:
			return nil, err
		case errors.Is(err, sdk.Exhausted), errors.Is(err, sdk.Unsupported), errors.As(err, &gone):
			exclude[choice.Worker] = err.Error()
		case attempt < maxAttempts && (errors.Is(err, sdk.Unavailable) || sdk.IsNotFound(err, sdk.KindVolume)):
		default:
			return nil, err
		}
	}
}

// maxAttempts is how often a container is tried to be made on workers that go away under it.
const maxAttempts = 5

// found gives the handle of a container that has a row.
func (h *Host) found(ctx context.Context, row store.Container) (*Container, error) {
	w, err := h.worker(row.Worker)
	if err != nil {
		return nil, err
	}
	away := false
	if row.State == containerCreating || row.State == containerReady || row.State == containerDestroying {
		// What an earlier host left is settled before the worker is up. Of a worker that stays away the row is all there is: what
		// runs there is lost when it is asked for.
		_, err := w.acquirePatiently(ctx)
		if _, gone := errors.AsType[*WorkerGoneError](err); err != nil && !gone {
			return nil, err
		}
		away = err != nil
		if row, err = h.containerByOwner(ctx, row.Owner); err != nil {
			return nil, err
		}
	}
	c := &Container{h: h, id: sdk.ContainerID(row.ID), owner: row.Owner, worker: w, state: row.State}
	if err := json.Unmarshal(row.Spec, &c.record); err != nil {
		return nil, fmt.Errorf("record of container %s: %w", row.ID, err)
	}
	if row.State != containerReady || away {
		return c, nil
	}
	return c, c.readImage(ctx)
}

func (h *Host) containerByOwner(ctx context.Context, owner string) (row store.Container, err error) {
	err = h.store.View(ctx, func(tx *store.Tx) error {
		row, err = tx.ContainerByOwner(owner)
		return err
	})
	return row, err
}

// create makes a container on a worker. When it fails, nothing is left but rows that say what to destroy when the worker is
// back.
func (h *Host) create(ctx context.Context, owner, workerName string, req ContainerRequest, p plan) (_ *Container, err error) {
	w, err := h.worker(workerName)
	if err != nil {
		return nil, err
	}
	c := &Container{h: h, id: sdk.ContainerID(newID("c")), owner: owner, worker: w}
	c.record = containerRecord{Team: req.Team, Kind: req.Kind, Outputs: make(map[string]string)}
	c.record.Spec = sdk.ContainerSpec{ID: c.id, Token: sdk.NewToken(), Labels: h.labels(owner), Dir: p.dir, Limits: req.Limits,
		Privileged: req.Privileged, Hermetic: req.Hermetic, Image: sdk.Image{Ref: req.ImageRef}}
	if err := h.claim(ctx, c); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.discard(ctx)
		}
	}()
	h.fault("claimed")
	if err := c.makeVolumes(ctx, req, p); err != nil {
		return nil, err
	}
	if len(p.mounts) > 0 || req.Image != nil { // now with what it mounts
		if err := c.put(ctx, containerCreating); err != nil {
			return nil, err
		}
	}
	h.fault("container-intent")
	err = w.call(ctx, "create container", func(ctx context.Context, conn sdk.Worker) error {
		return conn.CreateContainer(ctx, c.record.Spec, func(pr sdk.Progress) {
			req.tell(Event{Kind: EventCreating, Worker: w.name, Message: strings.TrimSpace(pr.Phase + " " + pr.Message)})
		})
	})
	h.fault("container-made")
	if err != nil {
		return nil, err
	}
	if err := c.readImage(ctx); err != nil {
		return nil, err
	}
	if err := c.put(ctx, containerReady); err != nil {
		return nil, err
	}
	c.state = containerReady
	h.fault("container-ready")
	return c, nil
}

// claim makes the owner's row. It survives a loss of power: no other container is ever made for this owner.
func (h *Host) claim(ctx context.Context, c *Container) error {
	row, err := c.row(containerCreating)
	if err != nil {
		return err
	}
	return h.store.Update(ctx, store.PowerSafe, func(tx *store.Tx) error { return tx.InsertContainer(row) })
}

func (c *Container) row(state string) (store.Container, error) {
	spec, err := json.Marshal(c.record)
	now := time.Now()
	return store.Container{ID: string(c.id), Worker: c.worker.name, Owner: c.owner, Team: c.record.Team,
		Token: string(c.record.Spec.Token), State: state, Spec: spec, CreatedAt: now, UpdatedAt: now}, err
}

func (c *Container) put(ctx context.Context, state string) error {
	row, err := c.row(state)
	if err != nil {
		return err
	}
	return c.h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		old, err := tx.Container(row.ID)
		if err != nil {
			return err
		}
		if old.State == containerLost {
			return fmt.Errorf("worker %s has lost what it had: %w", row.Worker, sdk.Unavailable)
		}
		row.CreatedAt = old.CreatedAt
		return tx.PutContainer(row)
	})
}

// makeVolumes brings the inputs to the worker, side by side, and makes the container's own volumes.
func (c *Container) makeVolumes(ctx context.Context, req ContainerRequest, p plan) error {
	g, gctx := errgroup.WithContext(ctx)
	mounts := make([]sdk.Mount, len(p.mounts))
	var mu sync.Mutex
	progress := func(s StreamProgress) { req.tell(Event{Kind: EventStreaming, Worker: c.worker.name, Stream: &s}) }
	if req.Image != nil {
		g.Go(func() error {
			r, err := c.h.replicate(gctx, req.Image, c.worker, progress)
			mu.Lock()
			defer mu.Unlock()
			c.record.Spec.Image.Volume = r.volume
			return err
		})
	}
	for i, m := range p.mounts {
		g.Go(func() error {
			row := store.Volume{Container: string(c.id), Path: m.path, Role: roleInput}
			spec := sdk.VolumeSpec{Labels: c.h.labels(c.owner), Privileged: req.Privileged}
			if m.output != "" {
				row.Role = roleOutput
			}
			if m.input != nil {
				r, err := c.h.replicate(gctx, m.input, c.worker, progress)
				if err != nil {
					return err
				}
				row.Parent, spec.Clone = string(r.volume), r.volume
			}
			made, err := c.h.createVolume(gctx, c.worker, row, spec)
			if m.input != nil && sdk.IsNotFound(err, sdk.KindVolume) && c.h.dropReplica(gctx, m.input, c.worker, row.Parent) {
				r, rerr := c.h.replicate(gctx, m.input, c.worker, progress)
				if rerr != nil {
					return rerr
				}
				row.Parent, spec.Clone = string(r.volume), r.volume
				made, err = c.h.createVolume(gctx, c.worker, row, spec)
			}
			row = made
			if err != nil {
				return err
			}
			mounts[i] = sdk.Mount{Volume: sdk.VolumeID(row.ID), Path: m.path}
			if m.output != "" {
				mu.Lock()
				defer mu.Unlock()
				c.record.Outputs[m.output] = row.ID
			}
			return nil
		})
	}
	err := g.Wait()
	c.record.Spec.Mounts = mounts
	return err
}

// Owner is whose container it is.
func (c *Container) Owner() string { return c.owner }

// Worker is the name of the worker that it is on.
func (c *Container) Worker() string { return c.worker.name }

// Seal ends the container and makes its outputs artifacts, by name: whoever still ran in it is killed, so that nothing
// writes any more. It is for a container whose work has ended by itself. Idempotent, also across restarts.
func (c *Container) Seal(ctx context.Context) (map[string]*Artifact, error) {
	if err := c.destroyOnly(ctx, false); err != nil {
		return nil, err
	}
	out := make(map[string]*Artifact, len(c.record.Outputs))
	for name, id := range c.record.Outputs {
		a, err := c.sealOutput(ctx, name, id)
		if err != nil {
			return nil, fmt.Errorf("output %s of %s: %w", name, c.owner, err)
		}
		out[name] = a
	}
	return out, c.destroyVolumes(ctx)
}

// OutputName is the name of the artifact that an owner's output becomes.
func OutputName(owner, output string) string { return owner + "/" + output }

func (c *Container) sealOutput(ctx context.Context, name, id string) (*Artifact, error) {
	row, err := c.h.volume(ctx, id)
	if err != nil {
		return nil, err
	}
	a, err := c.h.findOrAddArtifact(ctx, OutputName(c.owner, name), c.owner)
	if err != nil {
		return nil, err
	}
	if row.Artifact == a.ID && row.State == volumeSealed {
		return a, nil
	}
	if row, err = c.h.sealVolume(ctx, row); err != nil {
		return nil, err
	}
	c.h.fault("output-sealed")
	row.Artifact, row.Container = a.ID, "" // from here on it belongs to the artifact
	row.Bytes = c.h.sizeOf(ctx, row)
	if err := c.h.putVolume(ctx, row); err != nil {
		return nil, err
	}
	c.h.fault("output-registered")
	c.h.index.AddVolume(row.Worker, a.ID, row.Bytes)
	return a, nil
}

// sizeOf asks the worker how big a volume is; 0 where it cannot tell.
func (h *Host) sizeOf(ctx context.Context, row store.Volume) int64 {
	w, err := h.worker(row.Worker)
	if err != nil {
		return 0
	}
	var bytes int64
	err = w.call(ctx, "list volumes", func(ctx context.Context, c sdk.Worker) error {
		return c.ListVolumes(ctx, sdk.Filter{ID: row.ID}, func(i sdk.VolumeInfo) error {
			bytes = max(i.Bytes, 0)
			return nil
		})
	})
	if err != nil {
		return 0
	}
	return bytes
}

// Destroy kills what runs in the container and removes it with all its volumes, outputs that were not sealed too. Idempotent.
// The record of what ran in it stays.
func (c *Container) Destroy(ctx context.Context) error {
	if err := c.destroyOnly(ctx, true); err != nil {
		return err
	}
	return c.destroyVolumes(ctx)
}

// destroyOnly destroys the container; with, its volumes are noted as to be destroyed in the same moment.
func (c *Container) destroyOnly(ctx context.Context, with bool) error {
	row, err := c.current(ctx)
	if err != nil || row.State == containerDestroyed || row.State == containerLost {
		return err
	}
	return c.h.destroyContainer(ctx, row, with)
}

func (c *Container) current(ctx context.Context) (row store.Container, err error) {
	err = c.h.store.View(ctx, func(tx *store.Tx) error {
		row, err = tx.Container(string(c.id))
		return err
	})
	return row, err
}

func (h *Host) destroyContainer(ctx context.Context, row store.Container, volumes bool) error {
	row.State, row.UpdatedAt = containerDestroying, time.Now()
	err := h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		if err := tx.PutContainer(row); err != nil || !volumes {
			return err
		}
		rows, err := tx.Volumes(store.VolumeFilter{Container: row.ID})
		if err != nil {
			return err
		}
		for _, v := range rows {
			v.State = volumeDestroying
			if err := tx.PutVolume(v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	h.fault("destroy-intent")
	w, err := h.worker(row.Worker)
	if err != nil {
		return err
	}
	err = w.call(ctx, "destroy container", func(ctx context.Context, c sdk.Worker) error {
		return c.DestroyContainer(ctx, sdk.ContainerID(row.ID))
	})
	if err != nil {
		w.left.Store(true)
		return err
	}
	h.fault("destroyed")
	h.index.Release(row.Owner)
	row.State, row.UpdatedAt = containerDestroyed, time.Now()
	return h.putContainer(ctx, row)
}

// putContainer writes a row that has changed its state; that leads to space being freed.
func (h *Host) putContainer(ctx context.Context, row store.Container) error {
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error { return tx.PutContainer(row) })
}

func (c *Container) destroyVolumes(ctx context.Context) error {
	rows, err := c.h.volumes(ctx, store.VolumeFilter{Container: string(c.id)})
	if err != nil {
		return err
	}
	return c.h.destroyVolumes(ctx, rows)
}

// discard undoes a container in which no process was started. Its owner may ask again at once.
func (c *Container) discard(ctx context.Context) {
	ctx, cancel := c.h.cleanup(ctx)
	defer cancel()
	row, err := c.current(ctx)
	if err == nil {
		row.Owner = ""
		err = c.h.discardContainer(ctx, row)
	}
	if err != nil {
		c.h.log.Warn("a half-made container stays until its worker is back", "container", c.id, "worker", c.worker.name, "error", err)
	}
}

// discardContainer removes a container that nobody owns, its volumes, and every record of it.
func (h *Host) discardContainer(ctx context.Context, row store.Container) error {
	if row.State != containerLost {
		if err := h.destroyContainer(ctx, row, true); err != nil {
			return err
		}
	}
	rows, err := h.volumes(ctx, store.VolumeFilter{Container: row.ID})
	if err != nil {
		return err
	}
	if err := h.destroyVolumes(ctx, rows); err != nil {
		return err
	}
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error { return tx.DeleteContainer(row.ID) })
}
