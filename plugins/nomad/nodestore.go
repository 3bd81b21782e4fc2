package nomad

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
)

// nodeStore is the way to a node's volumes. The first who asks sees to it that there is a store.
type nodeStore struct {
	n *node

	mu      sync.Mutex
	closed  bool
	opening *opening              // under way; nil: none is
	client  *storenet.Store       // nil: not open
	dir     string                // of the node, that the store was given
	alloc   *api.Allocation       // of the store, in which commands run; nil: not known
	state   string                // what it was seen to be when it was not up
	mended  [storeNeeds]time.Time // when each need was last seen to while it did not run
}

func newNodeStore(n *node) *nodeStore { return &nodeStore{n: n} }

// opening is the way to a store that is not open yet. It takes as long as the store needs to come up, however long those who ask for it wait.
type opening struct {
	done   chan struct{} // closed when the rest is known
	client *storenet.Store
	dir    string
	err    error
}

func (v *nodeStore) close() error {
	v.mu.Lock()
	v.closed = true
	client := v.client
	v.mu.Unlock()
	if client == nil {
		return nil
	}
	return client.Close()
}

// errNoStore says what a step with volumes lacks here. It is Unsupported, so that hosts look for a worker that has it.
func (v *nodeStore) errNoStore() error {
	return cannot(sdk.ReasonConfig, "worker %q has no store of volumes, which steps with inputs or outputs need: add a block store to its configuration", v.n.name)
}

// open gives the store, and where its files are on the node. It waits no longer than ctx.
func (v *nodeStore) open(ctx context.Context) (*storenet.Store, string, error) {
	if v.n.pool.c.Store == nil {
		return nil, "", v.errNoStore()
	}
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	v.mu.Lock()
	client, dir := v.client, v.dir
	v.mu.Unlock()
	if client != nil {
		return client, dir, nil
	}
	o, err := v.begin()
	if err != nil {
		return nil, "", err
	}
	select {
	case <-o.done:
		return o.client, o.dir, o.err
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
}

// begin gives the opening that is under way, and begins one if none is.
func (v *nodeStore) begin() (*opening, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.closed:
		return nil, v.ending()
	case v.opening != nil:
		return v.opening, nil
	}
	o := &opening{done: make(chan struct{}), client: v.client, dir: v.dir}
	if o.client != nil { // it has just ended
		close(o.done)
		return o, nil
	}
	v.opening = o
	v.n.own.Go(func() {
		o.client, o.dir, o.err = v.reach(v.n.life)
		v.mu.Lock()
		v.opening = nil
		late := o.client
		if !v.closed {
			v.client, v.dir, late = o.client, o.dir, nil
		}
		v.mu.Unlock()
		if late != nil {
			o.client, o.err = nil, errors.Join(v.ending(), late.Close())
		}
		close(o.done)
	})
	return o, nil
}

func (v *nodeStore) ending() error {
	return sdk.NewUnavailable(nil, "worker %q is being closed", v.n.name)
}

// reach sees to it that there is a store, and makes the client.
func (v *nodeStore) reach(ctx context.Context) (*storenet.Store, string, error) {
	dir, err := v.n.hostVolume(ctx)
	if err == nil {
		err = v.start(ctx, dir)
	}
	var client *storenet.Store
	if err == nil {
		client, err = v.connect(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = v.ending()
	}
	return client, dir, err
}

// start waits until the store runs, whose job it registers if need be.
func (v *nodeStore) start(ctx context.Context, dir string) error {
	n := v.n
	if err := n.ensureStore(ctx, dir, storeThere); err != nil {
		return err
	}
	patience, stop := context.WithTimeout(ctx, time.Duration(n.pool.c.StartTimeout))
	defer stop()
	for index, done := uint64(0), storeThere; ; {
		stub, newest, err := v.find(patience, index)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case patience.Err() != nil:
			return v.down()
		case err != nil:
			return n.cluster.fail(ctx, "looking for the store of node "+short(n.id), err)
		}
		index = newest
		switch {
		case stub == nil:
			v.say(n.noStorePlace(patience))
		case runs(stub):
			return v.remember(ctx, stub.ID)
		case need(stub) > done:
			done = need(stub)
			if err := n.ensureStore(ctx, dir, done); err != nil {
				return err
			}
		case over(stub):
			v.say(v.words(ctx, stub.ID))
			return v.down()
		default:
			v.say(v.words(patience, stub.ID))
		}
	}
}

// need tells what a node's store needs that has such an allocation, the newest: it may have failed, or not get its program, which Nomad tries again for ever.
func need(stub *api.AllocationListStub) storeNeed {
	if stub.ClientStatus == api.AllocClientStatusFailed {
		return storeLame
	}
	s := stub.TaskStates[storeTask]
	switch {
	case forgotten(stub.TaskStates, storeTask) && stub.DesiredStatus == api.AllocDesiredStatusRun:
		return storeAnew
	case over(stub):
		return storeOver
	case s != nil && s.State == "pending" && slices.ContainsFunc(s.Events, func(e *api.TaskEvent) bool { return e.Type == api.TaskArtifactDownloadFailed }):
		return storeLame
	}
	return storeThere
}

// runs tells whether Nomad calls a store running, and it may be.
func runs(stub *api.AllocationListStub) bool {
	return stub.ClientStatus == api.AllocClientStatusRunning && !forgotten(stub.TaskStates, storeTask)
}

// mend has a store that does not run come up again, if it does not by itself. It waits for nothing. Stub is its newest allocation; nil: there is none.
func (v *nodeStore) mend(ctx context.Context, stub *api.AllocationListStub) {
	needs := storeThere // it may have no job any more
	if stub != nil {
		if needs = need(stub); needs == storeThere {
			return
		}
	}
	v.mu.Lock()
	dir, tried := v.dir, v.mended[needs]
	if dir == "" || !tried.IsZero() && time.Since(tried) < mendAgain {
		v.mu.Unlock()
		return
	}
	v.mended[needs] = time.Now()
	v.mu.Unlock()
	if err := v.n.ensureStore(ctx, dir, needs); err != nil && ctx.Err() == nil {
		v.n.log.Warn("the store of volumes does not run, and its job is not registered again", "error", err)
	}
}

// mendAgain is how long a store that does not run is left to itself after it was seen to.
const mendAgain = 15 * time.Second

// find gives the store's newest allocation on the node that is to run, or has failed; nil: there is none. It waits until something is newer than index.
func (v *nodeStore) find(ctx context.Context, index uint64) (*api.AllocationListStub, uint64, error) {
	q, _, cancel := v.n.cluster.waiting(ctx, index)
	defer cancel()
	stubs, meta, err := v.n.cluster.client.Jobs().Allocations(v.n.pool.storeJobID(), false, q)
	if missing(err) {
		return nil, 1, nil
	}
	if err != nil {
		return nil, 0, err
	}
	var found *api.AllocationListStub
	for _, s := range stubs {
		if s.NodeID == v.n.id && (found == nil || s.CreateIndex > found.CreateIndex) {
			found = s
		}
	}
	return found, max(meta.LastIndex, 1), nil
}

// remember has commands run in an allocation from now on.
func (v *nodeStore) remember(ctx context.Context, id string) error {
	asking, cancel := v.n.cluster.in(ctx)
	defer cancel()
	a, _, err := v.n.cluster.client.Allocations().Info(id, v.n.cluster.query(asking))
	if err != nil {
		return v.n.cluster.fail(ctx, "looking at the store of node "+short(v.n.id), err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.alloc, v.state = a, ""
	return nil
}

func (v *nodeStore) say(state string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state = state
}

// down is the error of a store that is not up.
func (v *nodeStore) down() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	state := v.state
	if state == "" {
		state = "nothing is known of it"
	}
	return sdk.NewUnavailable(nil, "the store of volumes of node %s (job %s of %s) is not up: %s", short(v.n.id), v.n.pool.storeJobID(), v.n.cluster, state)
}

// words tells how an allocation of the store is.
func (v *nodeStore) words(ctx context.Context, id string) string {
	asking, cancel := v.n.cluster.in(ctx)
	defer cancel()
	a, _, err := v.n.cluster.client.Allocations().Info(id, v.n.cluster.query(asking))
	if err != nil {
		return said(err)
	}
	return fmt.Sprintf("its allocation %s is %s: %s", short(id), a.ClientStatus, eventsOf(a, storeTask))
}

// noStorePlace says why the store has no allocation on the node.
func (n *node) noStorePlace(ctx context.Context) string {
	asking, cancel := n.cluster.in(ctx)
	defer cancel()
	evals, _, err := n.cluster.client.Jobs().Evaluations(n.pool.storeJobID(), n.cluster.query(asking))
	if err != nil {
		return said(err)
	}
	why := "it has no allocation there"
	newest := uint64(0)
	for _, e := range evals {
		for _, m := range e.FailedTGAllocs {
			if e.ModifyIndex > newest && len(m.DimensionExhausted)+len(m.ConstraintFiltered) > 0 {
				newest = e.ModifyIndex
				why = fmt.Sprintf("it has no allocation there; Nomad says of its nodes: exhausted %v, filtered %v", m.DimensionExhausted, m.ConstraintFiltered)
			}
		}
	}
	return why
}

// connect makes the client, and waits until the store answers: its task is up a moment before.
func (v *nodeStore) connect(ctx context.Context) (*storenet.Store, error) {
	s, err := storenet.New(storenet.Options{Node: short(v.n.id), Exec: v.exec, Program: v.n.pool.storePath(), Log: v.n.log})
	if err != nil {
		return nil, sdk.NewInternal(err, "the store of node %s: %v", short(v.n.id), err)
	}
	const patience = 30 * time.Second
	within, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		_, err := s.Status(within)
		if err == nil {
			return s, nil
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-within.Done():
			t.Stop()
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return nil, errors.Join(err, s.Close())
		}
	}
}

// exec runs a command in the store's task, wherever that is now.
func (v *nodeStore) exec(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	k := v.n.cluster
	v.mu.Lock()
	alloc := v.alloc
	v.mu.Unlock()
	if alloc == nil {
		stub, _, err := v.find(ctx, 0)
		switch {
		case err != nil:
			return k.fail(ctx, "looking for the store of node "+short(v.n.id), err)
		case stub == nil:
			v.say(v.n.noStorePlace(ctx))
			v.mend(ctx, nil)
			return v.down()
		case !runs(stub):
			v.say(v.words(ctx, stub.ID))
			v.mend(ctx, stub)
			return v.down()
		}
		if err := v.remember(ctx, stub.ID); err != nil {
			return err
		}
		v.mu.Lock()
		alloc = v.alloc
		v.mu.Unlock()
	}
	over, err := k.stores.take(ctx, v.n.id, nil)
	if err != nil {
		return err
	}
	defer over()
	if alloc.Job != nil && alloc.Job.Meta[metaProgram] != "" { // which another plugin may have made, with other settings
		argv = append([]string{alloc.Job.Meta[metaProgram]}, argv[1:]...)
	}
	_, _, err = k.exec(ctx, v.n.agent(), alloc, storeTask, argv, stdin, stdout, stderr)
	if err != nil && ctx.Err() == nil {
		v.mu.Lock()
		if v.alloc == alloc {
			v.alloc = nil // the next looks again
		}
		v.mu.Unlock()
	}
	return err
}
