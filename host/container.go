package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// ContainerRequest says what container an owner wants.
type ContainerRequest struct {
	Team     string   // empty: only shared workers
	Runtime  string   // a plugin's name; empty: any
	Platform string   // empty: any
	Tags     []string // all must be on the worker; with none, only workers without tags
	Kind     pool.Kind

	// With is the owner of another container: only the worker of that one will do. One that has none is sdk.NotFound.
	With    string
	Exclude map[string]string // workers that will not do, and why
	// Resources are what the container needs to itself, which no worker promises twice. Limits are another thing: they bound what it gets.
	Resources pool.Resources
	// Priority orders those who wait for a place, the highest first; beyond that it is fair between teams, then by age.
	Priority int
	// WaitLimit bounds the wait for a place. Zero is the configuration's, negative is not to wait at all. Past it the error is a
	// *pool.WaitError, or without a wait a *pool.FullError; where no worker would ever do it is a *pool.NoWorkerError at once.
	WaitLimit time.Duration

	Image    *Artifact // its rootfs/ becomes the root, its metadata.json the defaults; nil: none
	ImageRef string    // or the runtime's own reference
	User     string    // of its processes, as in ProcessRequest: whose its inputs and outputs are; empty: the image's
	Dir      string    // absolute; where relative paths begin; empty: DefaultDir
	Inputs   []Input
	// Shared are mounted read-only as they are, in place of copies: for certificates, say, which are the same everywhere.
	Shared  []Input
	Outputs []Output
	Caches  []Cache
	// Env is for all its processes, and wins over the image's. It is never stored: whoever finds the container brings it again.
	Env []string

	Limits     sdk.Resources
	Privileged bool
	Hermetic   bool
	Features   []sdk.Feature // that its processes will need: they cannot be added later

	// TTL is how long it is kept while nobody uses it: nothing runs in it, and Container and FindContainer are not asked for it. Zero: until its owner destroys
	// it. Those of runs go with their runs.
	TTL time.Duration

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
	image  *imageDefaults // nil: not read yet
	env    []string       // the caller's own
}

// containerRecord is what the store keeps of a container besides its states. It holds no environment.
type containerRecord struct {
	Spec      sdk.ContainerSpec
	Team      string
	Kind      pool.Kind
	Outputs   map[string]string        // volume by name
	Placed    *placed                  `json:",omitempty"` // why its worker was chosen; nil in rows of older hosts
	Claims    claims                   // its lease's
	Kept      bool                     `json:",omitempty"` // its command has failed, and it is kept for people to look at
	Caches    map[string]string        `json:",omitempty"` // volume by key
	CacheTTLs map[string]time.Duration `json:",omitempty"` // by key, of those that have one of their own
	Removed   bool                     `json:",omitempty"` // by its owner, who gets another one when it asks again
	TTL       time.Duration            `json:",omitempty"` // how long it is kept while nobody uses it; zero: until its owner destroys it
}

// Container finds the owner's container or makes it, however often and from however many callers it is asked for, and
// across crashes. What the request says counts only when it is made. An owner whose container is over gets it too, see [Container.State]: what ran
// in it can still be asked for, and nothing new be started. Where its owner has removed it (see [Host.RemoveContainer]), or nothing was ever started in it, a new one is made,
// once the old one is gone from its worker.
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
	ctx = onSilence(ctx, func(worker string, why error) { req.tell(pauseEvent(worker, why)) }, func(worker, what string) { req.tell(slowEvent(worker, what)) })
	c, err := h.foundOrMade(ctx, owner, req, plan)
	if err != nil {
		return nil, fmt.Errorf("container of %s: %w", owner, err)
	}
	own := *c // of those who share it each has an environment of its own
	own.env = slices.Clone(req.Env)
	return &own, nil
}

// foundOrMade finds or makes the owner's container, with whoever does so now. It is made as the first of them wants it, but nobody waits for a place less long than
// he asked for.
func (h *Host) foundOrMade(ctx context.Context, owner string, req ContainerRequest, plan plan) (*Container, error) {
	began, limit := time.Now(), req.WaitLimit
	for {
		var mine atomic.Bool
		c, err := h.owners.do(ctx, owner, func(ctx context.Context) (*Container, error) {
			mine.Store(true)
			return h.findOrCreate(ctx, owner, req, plan)
		})
		full, left := (*pool.FullError)(nil), h.leftOf(limit, began)
		if mine.Load() || !errors.As(err, &full) || left < 0 {
			return c, err
		}
		req.WaitLimit = left // another's limit has passed
	}
}

func (h *Host) findOrCreate(ctx context.Context, owner string, req ContainerRequest, p plan) (*Container, error) {
	row, err := h.containerByOwner(ctx, owner)
	if err == nil {
		var c *Container
		if c, err = h.found(ctx, row); err == nil && c.halfMade() {
			_, err = h.giveUpContainer(ctx, string(c.id)) // so that it has another
		} else if err == nil {
			var anew bool
			if anew, err = h.giveWay(ctx, c); err == nil && !anew {
				return c, nil
			}
		}
	}
	if ignoreNotFound(err) != nil { // it is not found either when settling has just undone what an earlier host began
		return nil, err
	}
	held := &holds{h: h} // until the container's record says what it is made of
	defer held.letGo()
	for _, a := range p.artifacts(req) {
		held.add(a.ID)
	}
	if p, err = h.withCaches(ctx, p, held); err != nil {
		return nil, err
	}
	exclude := maps.Clone(req.Exclude)
	if exclude == nil {
		exclude = make(map[string]string)
	}
	began, exhausted := time.Now(), make(map[string]string)
	var b backoff
	var retryIn time.Duration
	var tooBig error // why its caches begin empty, if they do and that is not told yet
	for attempt := 1; ; attempt++ {
		spec, err := h.placementSpec(ctx, req, p, exclude)
		if err != nil {
			return nil, err
		}
		if len(exhausted) > 0 {
			spec.Exhausted, spec.RetryIn = exhausted, retryIn
			spec.WaitLimit = h.leftOf(req.WaitLimit, began)
		}
		where, err := h.acquirePlace(ctx, owner, spec, req)
		if full, ok := errors.AsType[*pool.FullError](err); ok && spec.WaitLimit < 0 && req.WaitLimit >= 0 { // its time has passed in attempts
			err = &pool.WaitError{Owner: owner, Waited: time.Since(began), Cause: full}
		}
		if smaller, yes := p.withoutCaches(err); yes {
			p, tooBig = smaller, err
			continue
		}
		if err != nil {
			return nil, err
		}
		if tooBig != nil {
			h.log.Warn("the caches of a container begin empty: with their contents it needs more volumes than any worker may have that takes it now; the error tells of each worker", "owner", owner, "error", tooBig)
			tooBig = nil
		}
		req.tell(Event{Kind: EventPlaced, Worker: where.Worker})
		delete(exhausted, where.Worker)
		c, err := h.create(ctx, owner, where, req, p)
		if err == nil {
			return c, nil
		}
		h.index.GiveBack(owner)
		// No start was sent, so it may be tried again: elsewhere if this worker cannot, here too if it came back as another one, or has room then.
		var gone *WorkerGoneError
		switch {
		case h.ctx.Err() != nil: // whatever the worker said: the next host settles what it has made
			return nil, errors.Join(err, ErrClosed)
		case ctx.Err() != nil:
			return nil, err
		case lacksRoom(leftOfHalfMade(err)): // its record is in the way of the next one, until it can be noted that it goes
			return nil, errors.Join(err, leftOfHalfMade(err))
		case errors.Is(err, sdk.Exhausted):
			exhausted[where.Worker], retryIn = err.Error(), b.after(err)
		case errors.Is(err, sdk.Unsupported), errors.As(err, &gone):
			exclude[where.Worker] = err.Error()
		case attempt < maxAttempts && (errors.Is(err, sdk.Unavailable) || sdk.IsNotFound(err, sdk.KindVolume)):
		default:
			return nil, err
		}
	}
}

// leftOf is what is left of a wait limit that began with the first attempt: no wait at all if that is nothing.
func (h *Host) leftOf(limit time.Duration, began time.Time) time.Duration {
	limit = cmp.Or(limit, h.cfg().Placement.WaitLimit)
	if limit <= 0 {
		return limit
	}
	if left := limit - time.Since(began); left > 0 {
		return left
	}
	return -1
}

// maxAttempts is how often a container is tried to be made on workers that go away under it.
const maxAttempts = 5

// found gives the handle of a container that has a row.
func (h *Host) found(ctx context.Context, row store.Container) (*Container, error) {
	w, err := h.workerOf(row)
	if err != nil {
		return nil, err
	}
	if row.State == lifecycle.ContainerCreating || row.State == lifecycle.ContainerReady || row.State == lifecycle.ContainerDestroying {
		// What an earlier host left is settled before the worker is up. Of a worker that stays away the row is all there is: what
		// runs there is lost when it is asked for.
		heard := listen(ctx, w, "to be there")
		_, err := w.acquirePatiently(ctx)
		heard.end(err == nil)
		if _, gone := errors.AsType[*WorkerGoneError](err); err != nil && !gone {
			return nil, err
		}
		if row, err = h.containerByOwner(ctx, row.Owner); err != nil {
			return nil, err
		}
	}
	c := &Container{h: h, id: sdk.ContainerID(row.ID), owner: row.Owner, worker: w, state: row.State}
	if err := json.Unmarshal(row.Spec, &c.record); err != nil {
		return nil, fmt.Errorf("record of container %s: %w", row.ID, err)
	}
	h.noteUse(ctx, row, c.record.TTL)
	return c, nil
}

func (h *Host) containerByOwner(ctx context.Context, owner string) (row store.Container, err error) {
	err = h.store.View(ctx, func(tx *store.Tx) error {
		row, err = tx.ContainerByOwner(owner)
		return err
	})
	return row, err
}

// ID is the container's own: no other container has it, ever, not even the next one of its owner.
func (c *Container) ID() string { return string(c.id) }

// Owner is whose container it is.
func (c *Container) Owner() string { return c.owner }

// Worker is the name of the worker that it is on.
func (c *Container) Worker() string { return c.worker.name }
