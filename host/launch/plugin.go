package launch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// State is where a plugin stands.
type State string

// The states. What each means to who waits for the plugin is told by Runs and Failed alone; in all others it is on its way from one to the other, or to its end.
const (
	StateStarting State = "starting"
	StateReady    State = "ready"
	StateDegraded State = "degraded" // it missed a sign of life, or its process has just ended
	StateBackoff  State = "backoff"  // a restart follows soon
	StateOpen     State = "open"     // it failed too often or beyond mending: tried again now and then, or by Restart
	StateStopping State = "stopping"
	StateStopped  State = "stopped"
)

// Runs tells whether its process was found well and has not been given up: there is a session, or in degraded one was there a moment ago.
func (s State) Runs() bool { return s == StateReady || s == StateDegraded }

// Failed tells whether it does not run, for the reason in [Report.Err], and is only tried again after a while.
func (s State) Failed() bool { return s == StateBackoff || s == StateOpen }

// Report is what is known of a plugin. It is a copy; what it points to is never changed.
type Report struct {
	Name     string
	State    State
	Since    time.Time      // of State
	PID      int            // zero: no process
	Epoch    uint64         // of the latest start
	Info     sdk.PluginInfo // as it last told; zero: never ready
	Path     string         // of the program, as last resolved
	SHA256   string         // of that file; empty: unknown
	Restarts int            // starts but the first
	LastExit *Exit          // of the latest process that ended; nil: none has
	Err      *Error         // why it is not ready, or what it recovered from; nil: nothing has gone wrong since it was last stable, or restarted as asked
	RetryAt  time.Time      // in backoff and open: of the next attempt
}

// Failing tells whether it does not run since something went wrong, for the reason in Err. That is so also while it is being tried again.
func (r Report) Failing() bool { return r.Err != nil && !r.State.Runs() }

// Plugin keeps one configured plugin running. Its methods may be called from many goroutines.
type Plugin struct {
	spec Spec
	opts Options
	log  *slog.Logger

	ctx     context.Context // ends when the plugin is to stop
	cancel  context.CancelFunc
	killCtx context.Context // ends when stopping must not take longer
	killNow context.CancelFunc
	kick    chan struct{} // holds a request to restart
	done    chan struct{} // closed when nothing is left

	mu      sync.Mutex
	report  Report
	session *Session
	changed chan struct{} // closed at the next change of report or session
	stuck   *process      // the latest that SIGKILL did not end in time
}

// Start begins to run a plugin and returns at once. The caller stops it.
func Start(spec Spec, opts Options) *Plugin {
	opts = opts.withDefaults()
	p := &Plugin{
		spec: spec, opts: opts, log: opts.Logger.With("plugin", spec.Name),
		kick: make(chan struct{}, 1), done: make(chan struct{}), changed: make(chan struct{}),
		report: Report{Name: spec.Name, State: StateStarting, Since: time.Now()},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.killCtx, p.killNow = context.WithCancel(context.Background())
	go p.run()
	return p
}

// State tells what is known now.
func (p *Plugin) State() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.report
}

// Changes gives a channel that is closed at the next change of what State and Session give. To miss none, ask for it
// before looking.
func (p *Plugin) Changes() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Said is what the plugin has written to stderr last, at most 64 KiB of the process that ended last and of the one that runs, without control characters but
// line feeds and tabs. It was logged as well, a line at a time.
func (p *Plugin) Said() string {
	p.mu.Lock()
	s, exit := p.session, p.report.LastExit
	p.mu.Unlock()
	said := ""
	if exit != nil {
		said = exit.StderrTail
	}
	if s != nil && !closed(s.Gone) {
		said += s.said()
	}
	return said
}

// Session gives the running session. It waits while the plugin starts, or backs off from a failure; when the circuit is
// open, or the plugin stopped, it fails at once with an [*Error], whose class is Unavailable. When ctx ends first the error is
// ctx's, with what is known.
func (p *Plugin) Session(ctx context.Context) (*Session, error) {
	for {
		p.mu.Lock()
		s, r, changed := p.session, p.report, p.changed
		p.mu.Unlock()
		switch {
		case s != nil && !closed(s.Gone):
			return s, nil
		case r.State == StateOpen || r.State == StateStopping || r.State == StateStopped:
			return nil, r.unavailable()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if r.Err != nil {
				return nil, fmt.Errorf("%w while plugin %q was in state %s: %v", ctx.Err(), r.Name, r.State, r.Err)
			}
			return nil, fmt.Errorf("%w while plugin %q was in state %s", ctx.Err(), r.Name, r.State)
		}
	}
}

// unavailable is why there is no session and none is coming soon.
func (r Report) unavailable() *Error {
	if r.State != StateOpen {
		return &Error{Plugin: r.Name, Reason: ReasonStopped, Path: r.Path, Exit: r.LastExit, Message: "the host has stopped it"}
	}
	e := *r.Err
	e.RetryAfter = max(time.Until(r.RetryAt), time.Millisecond)
	e.Message += fmt.Sprintf(" (tried again in %v)", e.RetryAfter.Round(time.Second))
	return &e
}

// Restart ends the running process in the orderly way, if there is one, and starts a new one at once, also when the circuit
// is open; a start that is under way is finished first. It does not wait; Session gives the new session from now on. After
// Stop it does nothing.
func (p *Plugin) Restart() {
	p.withdraw()
	select {
	case p.kick <- struct{}{}:
	default: // one is asked for already
	}
	p.update(func(r *Report) {
		if r.State == StateOpen { // no more: a session is coming
			r.State, r.RetryAt = StateBackoff, time.Now()
		}
	})
}

// Stop ends the plugin and waits until no process, socket or goroutine of it is left: the end of stdin, then SIGTERM, then
// SIGKILL of its group, [Options.StopGrace] apart. When ctx ends first the rest of the graces is skipped. The error says
// what could not be ended. It may be called again, and by many.
func (p *Plugin) Stop(ctx context.Context) error {
	p.mu.Lock()
	if p.ctx.Err() == nil {
		p.session = nil
		p.set(func(r *Report) { r.State, r.RetryAt = StateStopping, time.Time{} })
	}
	p.cancel()
	p.mu.Unlock()

	select {
	case <-p.done:
	case <-ctx.Done():
		p.killNow()
		t := time.NewTimer(2 * (killGrace + pipeGrace))
		defer t.Stop()
		select {
		case <-p.done:
		case <-t.C:
			return fmt.Errorf("plugin %q cannot be stopped: it is stuck in starting its process: %w", p.spec.Name, ctx.Err())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck == nil || closed(p.stuck.done) {
		return nil
	}
	return fmt.Errorf("plugin %q: %w", p.spec.Name, p.stuck.stuck())
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// update changes the report; stopping is stronger than what the plugin's goroutine sees.
func (p *Plugin) update(change func(*Report)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(change)
}

func (p *Plugin) set(change func(*Report)) {
	before := p.report.State
	change(&p.report)
	if before == StateStopping && p.report.State != StateStopped {
		p.report.State = StateStopping
	}
	if p.report.State != before {
		p.report.Since = time.Now()
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// withdraw takes the session back, so that nobody begins anything with it.
func (p *Plugin) withdraw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session != nil {
		p.session = nil
		p.set(func(r *Report) { r.State = StateDegraded })
	}
}
