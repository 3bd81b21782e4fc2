package supervisor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/keeper"
	"github.com/slipway-run/slipway/sdk/shim/internal/monitor"
	"github.com/slipway-run/slipway/sdk/shim/internal/record"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// process is one command.
type process struct {
	id        sdk.ProcessID
	token     sdk.Token
	startedAt time.Time

	decided chan struct{} // closed once it is known whether it was started
	failed  error         // why it was not; then it is in the table no more

	// What follows is there from decided on, where failed is nil.
	record  *record.Process
	journal *keeper.Journal
	streams *streams
	monitor *monitorConn
	over    chan struct{} // closed when nothing is left of the command's tree
	oom     int64         // how often memory had run out in the container when it started
	killed  atomic.Bool   // KILL was asked for, so it is not of memory that it ends
}

// Start starts a command once. An id and token that were started are a success, whatever became of it.
func (s *Supervisor) Start(ctx context.Context, spec sdk.ProcessSpec) error {
	p, mine, err := s.admit(spec)
	if err != nil {
		return err
	}
	if mine {
		s.work.Go(func() { s.launch(p, spec) }) // whoever asked may leave (rule 2)
	}
	select {
	case <-p.decided:
		return p.failed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// admit finds the process, or makes it for the caller to launch.
func (s *Supervisor) admit(spec sdk.ProcessSpec) (p *process, mine bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.processes[spec.ID]; ok {
		if p.token != spec.Token {
			return nil, false, sdk.NewAlreadyExists(sdk.KindProcess, string(spec.ID))
		}
		return p, false, nil
	}
	switch {
	case s.quiesced:
		return nil, false, sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindProcess, string(spec.ID),
			"process %q: a volume that the container can write was sealed; nothing is started in it any more", spec.ID)
	case len(s.processes) >= sdk.MaxProcesses:
		return nil, false, sdk.NewFailedPrecondition(sdk.ReasonProcesses, sdk.KindProcess, string(spec.ID),
			"process %q: the container has had its %d processes; use another", spec.ID, sdk.MaxProcesses)
	}
	if err := s.can.check(spec); err != nil {
		return nil, false, err
	}
	p = &process{id: spec.ID, token: spec.Token, startedAt: time.Now(), decided: make(chan struct{}), over: make(chan struct{})}
	s.processes[p.id] = p
	return p, true, nil
}

// launch is the life of a process.
func (s *Supervisor) launch(p *process, spec sdk.ProcessSpec) {
	fate := s.begin(p, spec)
	if p.failed != nil {
		s.mu.Lock()
		delete(s.processes, p.id)
		s.mu.Unlock()
		close(p.decided)
		s.makeSpare()
		return
	}
	close(p.decided)
	s.run(p, fate)
	s.makeSpare() // by now; earlier it would take its time from the command
}

// startTimeout is how long a monitor may take to say whether the command was started. Only a machine or a file system that hangs takes
// that long.
const startTimeout = 30 * time.Second

var errStays = errors.New("the record of a process that was not started could not be taken away")

// begin records the start, makes the monitor and has it start the command. If the command certainly was not started, p.failed says why and
// nothing is left. The error tells of a process that may have been started and has nobody to end its record.
func (s *Supervisor) begin(p *process, spec sdk.ProcessSpec) (fate error) {
	s.disk <- struct{}{}
	p.record, p.failed = record.Create(s.scratch, record.Start{ID: p.id, Token: p.token, StartedAt: p.startedAt})
	<-s.disk
	if p.failed != nil {
		return nil
	}
	defer func() {
		if p.failed == nil {
			return
		}
		if err := p.record.Remove(); err != nil {
			// It may be found, so the id is used up: better abandoned than started twice.
			s.log.Error("the record of a process that was not started stays", "process", p.id, "error", err)
			p.failed, p.journal = nil, keeper.Ended(p.id, nil, nil)
			fate = errStays
		}
	}()
	if p.streams, p.failed = openStreams(spec); p.failed != nil {
		return nil
	}
	p.journal = keeper.New(spec, keeper.NewSegments(p.record.Journal(), spec))
	p.oom = oomKills()
	p.monitor, p.failed = s.takeMonitor(p.id, p.streams.theirs)
	p.streams.release()
	if p.failed != nil {
		p.streams.close()
		return nil
	}
	started, err := p.monitor.start(spec)
	switch {
	case err != nil:
		return err
	case started.Failed != nil:
		p.failed = started.Failed.Err()
		p.streams.close()
		p.monitor.wait()
	}
	return nil
}

// run has the process's output journalled and its stdin fed until it has ended, and everything of it is gone.
func (s *Supervisor) run(p *process, fate error) {
	if fate == errStays {
		close(p.over)
		return
	}
	ctx, cancel := context.WithCancel(s.life)
	defer cancel()
	p.streams.pump(ctx, p.journal)
	var ended *monitor.Ended
	if fate == nil {
		ended, fate = p.monitor.ended()
	}
	if fate != nil {
		// Nobody can tell how it ended. What it left is killed, and only what it wrote is told.
		s.log.Error("a process has lost its monitor", "process", p.id, "error", fate)
		s.abandon(p)
	} else {
		if !ended.Left {
			close(p.over) // before the exit: whoever sees that may seal
		}
		s.conclude(p, *ended)
		gone := p.monitor.wait() || s.killOrphans()
		if ended.Left && gone {
			close(p.over)
		}
	}
	p.streams.wait() // for whoever else has got hold of its pipes
}

// conclude awaits the end of the output, as long as that may take, and records the exit.
func (s *Supervisor) conclude(p *process, ended monitor.Ended) {
	cut := p.streams.finish(time.Now().Add(sdk.OutputGrace))
	p.journal.CloseOutput()
	e := exitOf(unix.WaitStatus(ended.Status))
	e.StartedAt, e.EndedAt, e.PeakMemoryBytes, e.OutputCut = p.startedAt, ended.At, ended.PeakMemoryBytes, cut
	if e.Signal == sdk.KILL && !p.killed.Load() && oomKills() > p.oom {
		e.Reason, e.Message = sdk.ExitOOM, "the container's memory ran out and the kernel ended the process"
	}
	if err := p.record.Exit(e, p.journal.End()); err != nil {
		// It is told as long as this process lives. After that the process counts as abandoned, which is the truth then.
		s.log.Error("an exit is not on the scratch volume", "process", p.id, "error", err)
	}
	p.journal.Exit(e)
}

// abandon ends a process without an exit.
func (s *Supervisor) abandon(p *process) {
	p.monitor.close() // one that lives kills its tree then
	select {
	case <-p.monitor.reaped:
	case <-time.After(killTimeout):
		s.kill(p.monitor)
	}
	p.monitor.wait() // only then are its orphans ours
	if s.killOrphans() {
		close(p.over) // its output may wait for a follower yet
	}
	p.streams.finish(time.Now().Add(sdk.OutputGrace))
	p.journal.CloseOutput()
	p.journal.Abandon()
}

// exitOf tells what wait(2) told.
func exitOf(status unix.WaitStatus) sdk.Exit {
	if status.Signaled() {
		number := int(status.Signal())
		return sdk.Exit{Code: 128 + number, Signal: signalName(status.Signal()), Reason: sdk.ExitSignalled}
	}
	return sdk.Exit{Code: status.ExitStatus(), Reason: sdk.ExitExited}
}

// List tells of all processes.
func (s *Supervisor) List() ([]sdk.ProcessInfo, error) {
	s.mu.Lock()
	processes := slices.Collect(maps.Values(s.processes))
	s.mu.Unlock()
	all := make([]sdk.ProcessInfo, 0, len(processes))
	for _, p := range processes { // a journal may be waiting for its disk: never with the mutex
		info := sdk.ProcessInfo{ID: p.id, Token: p.token, State: sdk.ProcessRunning, StartedAt: p.startedAt}
		if p.isDecided() {
			if p.failed != nil {
				continue
			}
			info.State, info.Exit = p.journal.Status()
		}
		all = append(all, info)
	}
	return all, nil
}

func (p *process) isDecided() bool {
	select {
	case <-p.decided:
		return true
	default:
		return false
	}
}

// find gives a process once it is decided whether it was started.
func (s *Supervisor) find(ctx context.Context, id sdk.ProcessID) (*process, error) {
	s.mu.Lock()
	p, ok := s.processes[id]
	s.mu.Unlock()
	if ok {
		select {
		case <-p.decided:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if !ok || p.failed != nil {
		return nil, sdk.NewNotFound(sdk.KindProcess, string(id))
	}
	return p, nil
}

// Follow is the journal's.
func (s *Supervisor) Follow(ctx context.Context, id sdk.ProcessID, by wire.Follow, f sdk.Follow) error {
	p, err := s.find(ctx, id)
	if err != nil {
		return err
	}
	return p.journal.FollowAs(ctx, keeper.As{Name: by.Name, Resume: by.Resume, Caller: by.Caller, Turn: by.Turn}, by.From, f)
}

// Signal signals a process that runs.
func (s *Supervisor) Signal(ctx context.Context, id sdk.ProcessID, signal sdk.Signal) error {
	p, err := s.find(ctx, id)
	if err != nil {
		return err
	}
	if p.journal.State() != sdk.ProcessRunning {
		return nil
	}
	if signal == sdk.KILL {
		p.killed.Store(true)
	}
	return p.monitor.signal(signal)
}

// Resize sets the size of a process's terminal.
func (s *Supervisor) Resize(ctx context.Context, id sdk.ProcessID, size sdk.TTY) error {
	if s.can.tty != nil {
		return sdk.NewUnsupported(sdk.FeatureTTYResize)
	}
	p, err := s.find(ctx, id)
	if err != nil {
		return err
	}
	if p.journal.State() != sdk.ProcessRunning {
		return nil
	}
	return p.streams.resize(id, size)
}

// Quiesce refuses all starts from now on, unless something runs: a process, or what one has left behind.
func (s *Supervisor) Quiesce(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		select {
		case <-p.over:
		default:
			return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindProcess, string(p.id),
				"process %q, or something that it started, still runs in the container", p.id)
		}
	}
	s.quiesced = true
	s.work.Go(s.dropSpare)
	return nil
}
