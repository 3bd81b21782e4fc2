package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// ProcessRequest says what to run.
type ProcessRequest struct {
	Path  string // empty: the image's entrypoint, with Args or else the image's cmd
	Args  []string
	Env   []string // wins over the container's and the image's; never stored
	Dir   string   // relative: below the container's Dir; empty: that
	User  string
	Stdin io.Reader // nil: none. Read from where the process's keeper is, so it must begin at byte 0.
	TTY   *sdk.TTY

	SpillBytes int64
	WhenFull   sdk.WhenFull

	// timeout is that of a run's step. The run holds the process to it; it is kept for the hosts that come after this one, which do so
	// where nobody resumes the run.
	timeout time.Duration
}

// Process is a process that was started, by this host or an earlier one on the same state directory.
type Process struct {
	h          *Host
	id         string // of its row and spool
	name       sdk.ProcessID
	container  sdk.ContainerID
	owner      string
	worker     *worker
	token      sdk.Token
	aborting   context.Context // ended by Abort, with the reason as its cause
	beginAbort context.CancelCauseFunc
	over       context.Context // ended by endOver, a moment after its container was over
	endOver    context.CancelFunc

	deadline *deadline // nil: it has none, or was started by this host, whose run holds it to its timeout

	told   toldExit      // of the goroutine that follows
	noted  bool          // its row says that it runs; of that goroutine, once it is followed
	stored chan struct{} // closed once there is a place for output
	done   chan struct{} // closed once outcome is set

	mu      sync.Mutex
	stdin   *stdinSource       // nil: none
	again   context.CancelFunc // ends the present follower, so that the next one has the stdin
	outcome Outcome

	telling   sync.Mutex      // so that what is told comes in the order in which it happens
	paused    func(why error) // told when the worker goes away, and with nil when it is back
	pausedFor error           // why it does not go on; nil: it does
}

// Owner is whose container the process is in; see [AttemptOwner].
func (p *Process) Owner() string { return p.owner }

// Outcome is how a process ended. One of Exit and Err is set.
type Outcome struct {
	Exit *sdk.Exit
	Err  error // *LostError, *AbortedError, or why following it failed
}

// Start starts a process under a name, once, however often it is asked for: the second time it finds what the first began.
// A start that an earlier host may have sent is looked for before it is sent again, with the same token.
func (c *Container) Start(ctx context.Context, name string, req ProcessRequest) (*Process, error) {
	unlock, err := c.h.starters.Lock(ctx, rowID(c.id, sdk.ProcessID(name))) // of two callers the second finds what the first has begun
	if err != nil {
		return nil, err
	}
	defer unlock()
	begun, err := c.h.processRow(ctx, rowID(c.id, sdk.ProcessID(name)))
	if err != nil {
		return nil, err
	}
	if begun.State != lifecycle.None && begun.State != lifecycle.ProcessStarting {
		return c.startedBefore(ctx, name, req, begun)
	}
	p := c.h.newProcess(store.Process{ID: rowID(c.id, sdk.ProcessID(name)), Container: string(c.id)}, c.owner, c.worker)
	image, err := c.imageDefaults(ctx)
	if gone := (*WorkerGoneError)(nil); errors.As(err, &gone) && begun.State == lifecycle.ProcessStarting { // it may have been started, and nobody can say
		err = c.startFailed(ctx, p, true, err)
	}
	if err != nil {
		return nil, fmt.Errorf("process %s of %s: %w", name, c.owner, err)
	}
	req.Env = withTraceParent(ctx, req.Env, c.env)
	spec, err := c.processSpec(name, req, image)
	if err != nil {
		return nil, fmt.Errorf("process %s of %s: %w", name, c.owner, err)
	}
	defer c.h.starts(p)()
	row, fresh, err := c.claimProcess(ctx, spec, req.timeout)
	if err != nil {
		return nil, err
	}
	if row.State == lifecycle.ProcessStarting && c.state != lifecycle.ContainerReady {
		// It was never known whether this start took effect, and now nobody can say.
		if err := c.h.endProcess(ctx, row.ID, lifecycle.Lost, "its container is "+c.state+" and its start was not settled", nil); err != nil {
			return nil, err
		}
		row.State, row.Reason = lifecycle.ProcessLost, "its container is "+c.state+" and its start was not settled"
	}
	if row.State != lifecycle.ProcessStarting {
		return c.h.attach(ctx, row, c.owner, c.worker)
	}
	c.h.fault("start-intent")
	spec.Token, p.token = sdk.Token(row.Token), sdk.Token(row.Token)
	if req.Stdin != nil {
		p.stdin = newStdinSource(req.Stdin)
	}
	if err := c.send(ctx, p, spec, !fresh); err != nil {
		return nil, fmt.Errorf("start %s of %s on worker %s: %w", name, c.owner, c.worker.name, err)
	}
	c.h.fault("started")
	switch row, err = c.h.noteStarted(ctx, p); {
	case err != nil:
		return nil, err
	case p.noted && row.State != lifecycle.ProcessRunning: // another caller's follower was quicker than this one's note
		return c.h.attach(ctx, row, c.owner, c.worker)
	}
	return c.h.follow(p)
}

// startedBefore gives a process that was started already, and may have ended. It needs nothing of the worker: where the image says what is run, the request is not
// held against that again.
func (c *Container) startedBefore(ctx context.Context, name string, req ProcessRequest, row store.Process) (*Process, error) {
	if req.Path != "" {
		if _, err := c.processSpec(name, req, imageDefaults{}); err != nil {
			return nil, fmt.Errorf("process %s of %s: %w", name, c.owner, err)
		}
	}
	p, err := c.h.attach(ctx, row, c.owner, c.worker)
	if err == nil && req.Stdin != nil {
		p.feed(req.Stdin) // of a client that came back after the host's restart
	}
	return p, err
}

// processRow gives the row of a process; a zero one where there is none.
func (h *Host) processRow(ctx context.Context, id string) (row store.Process, err error) {
	err = h.store.View(ctx, func(tx *store.Tx) error {
		row, err = tx.Process(id)
		return ignoreNotFound(err)
	})
	return row, err
}

// noteStarted notes that a start took effect, as [Host.markRunning] does. Where the disk has no room even for that, who follows the process notes it once there
// is some: what runs is not given up for want of a note, and a host that comes before that looks for it on its worker.
func (h *Host) noteStarted(ctx context.Context, p *Process) (row store.Process, err error) {
	row, err = h.markRunning(ctx, p.id)
	if lacksRoom(err) {
		h.log.Warn("a process has been started, and it cannot be noted that it runs: that is tried again", "process", p.id, "error", err)
		return row, nil
	}
	p.noted = err == nil
	return row, err
}

// markRunning notes that a start took effect, and gives the row as it is then: the process may have ended since. It may use what is kept in reserve: only what is
// followed to its end, and has that noted, can be destroyed.
func (h *Host) markRunning(ctx context.Context, id string) (row store.Process, err error) {
	err = h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		m, err := processLife.move(tx, id, lifecycle.Started, func(p *store.Process) error {
			p.StartedAt = h.clock.wall()
			if p.Timeout > 0 {
				p.Deadline = p.StartedAt.Add(p.Timeout)
			}
			return nil
		})
		row = m.row
		return err
	})
	return row, err
}

func (c *Container) processSpec(name string, req ProcessRequest, image imageDefaults) (spec sdk.ProcessSpec, err error) {
	spec = sdk.ProcessSpec{
		ID: sdk.ProcessID(name), Token: sdk.NewToken(), Path: req.Path, Args: req.Args,
		Env: mergeEnv(image.Env, c.env, req.Env), User: req.User, Stdin: req.Stdin != nil, TTY: req.TTY,
		Spill: req.SpillBytes, WhenFull: req.WhenFull,
	}
	if spec.User == "" {
		spec.User = image.User
	}
	if spec.Path == "" {
		if spec.Path, spec.Args, err = image.command(req.Args); err != nil {
			return spec, err
		}
	}
	if req.Dir != "" {
		dir, err := resolvePath(c.record.Spec.Dir, req.Dir)
		if err != nil {
			return spec, err
		}
		spec.Dir = dir
	}
	return spec, spec.Validate()
}

// rowID is the id of a process's row and spool: its own is unique only within its container.
func rowID(container sdk.ContainerID, process sdk.ProcessID) string {
	return string(container) + "-" + string(process)
}

func (h *Host) newProcess(row store.Process, owner string, w *worker) *Process {
	p := &Process{h: h, id: row.ID, container: sdk.ContainerID(row.Container), owner: owner, worker: w,
		token: sdk.Token(row.Token), noted: row.State == lifecycle.ProcessRunning, stored: make(chan struct{}), done: make(chan struct{})}
	p.name = sdk.ProcessID(row.ID[len(row.Container)+1:])
	p.aborting, p.beginAbort = context.WithCancelCause(context.Background())
	p.over, p.endOver = context.WithCancel(context.Background())
	return p
}

// attach gives the handle of a process that has a row: the one that is followed already, or a new one.
func (h *Host) attach(ctx context.Context, row store.Process, owner string, w *worker) (*Process, error) {
	p := h.newProcess(row, owner, w)
	switch row.State {
	case lifecycle.ProcessRunning:
		p.deadline = h.deadlineOf(row)
		p, err := h.follow(p)
		if err != nil {
			return nil, err
		}
		container, err := p.row(ctx) // once it is followed: nobody tells those who come to a container that is over already
		if err != nil {
			return nil, err
		}
		if container.State == lifecycle.ContainerDestroyed || container.State == lifecycle.ContainerLost {
			time.AfterFunc(lastWords, p.endOver)
		}
		return p, nil
	case lifecycle.ProcessExited:
		if row.Reason != "" { // it ended because it was told to
			p.outcome.Err = abortedError(owner, row)
			break
		}
		p.outcome.Exit = new(sdk.Exit)
		if err := json.Unmarshal(row.Exit, p.outcome.Exit); err != nil {
			return nil, fmt.Errorf("record of process %s: %w", row.ID, err)
		}
	case lifecycle.ProcessLost:
		p.outcome.Err = &LostError{Owner: owner, Worker: w.name, Reason: row.Reason}
	case lifecycle.ProcessAborted:
		p.outcome.Err = abortedError(owner, row)
	default:
		return nil, fmt.Errorf("process %s is %s", row.ID, row.State)
	}
	close(p.stored)
	close(p.done)
	return p, nil
}

// feed gives a process that has none a stdin, from its beginning.
func (p *Process) feed(src io.Reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stdin != nil {
		return
	}
	p.stdin = newStdinSource(src)
	if p.again != nil {
		p.again()
	}
}

// Wait waits until the process has ended and says how. Its error is ctx's.
func (p *Process) Wait(ctx context.Context) (Outcome, error) {
	select {
	case <-p.done:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.outcome, nil
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
}

// Done is closed when the process has ended and its output is stored whole.
func (p *Process) Done() <-chan struct{} { return p.done }

// Output reads what the process wrote, from a position on, as it comes. Any number may read, each at its own pace, during the process
// and after it. It waits for the place of the output, which a full disk may keep from being made; ctx bounds that.
func (p *Process) Output(ctx context.Context, from sdk.Position) (*spool.Reader, error) {
	select {
	case <-p.stored:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return p.h.spool.Reader(p.id, int64(from))
}

// ID names the process in the store and in the logs.
func (p *Process) ID() string { return p.id }

// Signal sends a signal.
func (p *Process) Signal(ctx context.Context, s sdk.Signal) error {
	return p.worker.call(ctx, "signal "+string(s), func(ctx context.Context, conn sdk.Worker) error {
		return conn.SignalProcess(ctx, p.container, p.name, s)
	})
}

// OnPause has f called when the worker goes away under the process, or is away already, with the reason, and with nil when it is back. It must not wait.
func (p *Process) OnPause(f func(why error)) {
	p.telling.Lock()
	defer p.telling.Unlock()
	p.paused = f
	if p.pausedFor != nil && f != nil { // since before anybody asked
		f(p.pausedFor)
	}
}

// endProcess writes how a process ended. The first ending stays.
func (h *Host) endProcess(ctx context.Context, id string, e lifecycle.Event, reason string, exit *sdk.Exit) error {
	var container string
	defer func() { h.expiries.letGo(containerThing(container), h.clock.wall()) }()
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		_, err := processLife.move(tx, id, e, func(row *store.Process) (err error) {
			container = row.Container
			row.Reason, row.EndedAt = cmp.Or(reason, row.Reason), h.clock.wall()
			if exit != nil {
				row.Exit, err = json.Marshal(exit)
			}
			return err
		})
		return err
	})
}
