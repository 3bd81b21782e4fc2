package shim

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Exec runs argv in a container as the runtime's own exec does, with the streams copied until it ends: stdin and stdout are of type
// *os.File and may be handed on as they are. It returns when the command has ended or ctx has, and uses no stream afterwards. The
// command's own exit status is not an error and is not reported. An [*sdk.Error], such as NotFound of the container, is passed on as
// it is; any other error is Unavailable to the caller. Many are called at once. What a runtime does with a command whose ctx ended does
// not matter.
type Exec func(ctx context.Context, container sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error

// Options of a Driver. The zero value is usable.
type Options struct {
	Program string // where the program is in a container; empty: /slipway/shim
	Scratch string // where the private scratch volume is; empty: /slipway/scratch
	// Locate tells both where they differ from container to container; nil: they do not.
	Locate func(sdk.ContainerID) (program, scratch string)

	// Turn waits until an exec may begin, where a runtime takes only so many at once, and gives what is called when it has ended. HelloTimeout begins
	// with it. Its error is the caller's. Nil: all may begin at once.
	Turn func(ctx context.Context, container sdk.ContainerID) (over func(), err error)

	// Recognise is told what a container's program says of itself whenever a relay has reached it, before any call is made. Its error is the calls'
	// own, and the relay is closed. It is for runtimes that may begin a container's keeper anew with nothing of its records: see [Info.Keeper]. Nil: any will do.
	Recognise func(context.Context, sdk.ContainerID, Info) error

	HelloTimeout time.Duration // for an exec's first words; zero: 10 s
	CallTimeout  time.Duration // for an answer, and for the next piece of one that is long; zero: 60 s
	IdleTimeout  time.Duration // until a relay that no call uses is closed; zero: 1 min

	Log *slog.Logger // nil: nothing is logged
}

// What the program takes of a container's limits, to be added to those that are asked for: a supervisor, a relay and four processes' monitors.
// A limit on processes counts threads. Each further process that runs at once takes about 10 more and a mebibyte.
const (
	OverheadMemoryBytes = 32 << 20
	OverheadPIDs        = 64
)

// Info is what the program said of itself and the container.
type Info struct {
	Version  string        // of the program
	Features []sdk.Feature // what the keeper can do here
	Notes    []string      // what it cannot, and why, for people
	Keeper   string        // a random name, the same as long as its records are there
}

// Driver is the process half of an [sdk.Worker] for all containers of a runtime that can exec. Its methods may be called from many
// goroutines at once.
type Driver struct {
	exec Exec
	o    Options
	// Of the constants by these names; tests are less patient.
	keepAlive, execGrace, closeGrace time.Duration

	name  string       // a random word
	turns atomic.Int64 // of followers' requests, by which a keeper tells the newest

	own sync.WaitGroup // calls, relays and execs

	mu     sync.Mutex
	open   map[sdk.ContainerID]*container
	closed bool
	execs  int // that have not ended
}

const (
	keepAlive  = 10 * time.Second // how soon a paused or hung container is noticed, half of it
	execGrace  = 2 * time.Second  // for a command to end by itself once its streams are closed
	closeGrace = 10 * time.Second // for an Exec whose context has ended
)

// New makes a Driver. It does nothing by itself.
func New(exec Exec, o Options) *Driver {
	if o.Program == "" {
		o.Program = "/slipway/shim"
	}
	if o.Scratch == "" {
		o.Scratch = "/slipway/scratch"
	}
	if o.Locate == nil {
		program, scratch := o.Program, o.Scratch
		o.Locate = func(sdk.ContainerID) (string, string) { return program, scratch }
	}
	if o.Turn == nil {
		o.Turn = func(context.Context, sdk.ContainerID) (func(), error) { return func() {}, nil }
	}
	if o.HelloTimeout == 0 {
		o.HelloTimeout = 10 * time.Second
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = time.Minute
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{exec: exec, o: o, name: rand.Text(), keepAlive: keepAlive, execGrace: execGrace, closeGrace: closeGrace, open: make(map[sdk.ContainerID]*container)}
}

// Forget closes the container's relay and ends all calls on it with NotFound of the container. DestroyContainer calls it once nothing
// of the container can write any more (rule 8); a call that comes later asks Exec again, which must say by then that there is no container.
func (d *Driver) Forget(id sdk.ContainerID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.open[id]; c != nil {
		d.drop(c, sdk.NewNotFound(sdk.KindContainer, string(id)))
	}
}

// Rest closes the container's relay unless a call uses it, and waits for its Exec, no longer than ctx. Nothing depends on it: it is for runtimes in which
// to destroy a container takes longer while a command of their own runs in it.
func (d *Driver) Rest(ctx context.Context, id sdk.ContainerID) {
	d.mu.Lock()
	c := d.open[id]
	if c == nil || c.calls > 0 || c.relay == nil {
		d.mu.Unlock()
		return
	}
	r := c.relay
	d.drop(c, context.Canceled)
	d.mu.Unlock()
	select {
	case <-r.ended:
	case <-ctx.Done():
	}
}

// RestIdle is Rest for all containers, without the waiting: for runtimes that take only so many execs at once, when another one is wanted.
func (d *Driver) RestIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.open {
		if c.calls == 0 && c.relay != nil {
			d.drop(c, context.Canceled)
		}
	}
}

// Close ends all calls and relays and waits for them; containers and processes go on. The error tells of an Exec that does not return
// although its context has ended.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	for _, c := range d.open {
		d.drop(c, errClosed())
	}
	d.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends with the last Exec
		d.own.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(d.execGrace + d.closeGrace):
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return sdk.NewInternal(nil, "shim: %d execs have not returned %v after their contexts ended: the plugin's Exec must heed its context", d.execs, d.closeGrace)
}

// container is one that calls are made on, or that has a relay. Its fields are guarded by Driver.mu.
type container struct {
	id    sdk.ContainerID
	ctx   context.Context // ends when it is dropped, with why as its cause
	end   context.CancelCauseFunc
	calls int
	relay *relay // the newest, if it is not over
	idle  *time.Timer
}

// drop forgets a container and ends what is under way on it. With Driver.mu held.
func (d *Driver) drop(c *container, why error) {
	if d.open[c.id] == c {
		delete(d.open, c.id)
	}
	c.idle.Stop()
	c.end(why)
}

// call is one call on a container.
type call struct {
	d     *Driver
	c     *container
	outer context.Context // the caller's
	ctx   context.Context // ends with it or with the container
	end   context.CancelFunc
}

// enter begins a call; leave ends it.
func (d *Driver) enter(ctx context.Context, id sdk.ContainerID) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed()
	}
	c := d.open[id]
	if c == nil {
		c = &container{id: id}
		c.ctx, c.end = context.WithCancelCause(context.Background())
		c.idle = time.AfterFunc(d.o.IdleTimeout, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if c.calls == 0 {
				d.drop(c, context.Canceled)
			}
		})
		d.open[id] = c
	}
	d.own.Add(1)
	c.calls++
	c.idle.Stop()
	own, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	return &call{d: d, c: c, outer: ctx, ctx: own, end: func() { stop(); cancel() }}, nil
}

func (c *call) leave() {
	defer c.d.own.Done()
	c.end()
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.c.calls--
	c.d.rest(c.c)
}

// rest lets a container that no call uses go, at once or when its relay has been idle. With Driver.mu held.
func (d *Driver) rest(c *container) {
	switch {
	case c.calls > 0 || c.ctx.Err() != nil:
	case c.relay == nil:
		d.drop(c, context.Canceled)
	default:
		c.idle.Reset(d.o.IdleTimeout)
	}
}
