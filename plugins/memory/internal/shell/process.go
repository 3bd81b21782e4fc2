package shell

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

// process is what the commands of one Run share.
type process struct {
	e      *Engine
	ns     *tree.Namespace
	ctx    context.Context
	cancel context.CancelFunc
	halt   halt

	mu        sync.Mutex
	listeners map[int]func(killed)
	next      int
	early     []killed      // signals that came before anything listened
	active    int           // commands that run
	quiet     chan struct{} // closed while none does
	ended     bool
	pipes     map[*os.File]struct{} // inputs that are still copied
	copies    sync.WaitGroup
	handles   handles

	loose         int           // substitutions that have not ended
	settled       chan struct{} // closed while there are none
	substitutions []*os.File    // both ends of each process substitution's pipe
	crowded       atomic.Bool   // too many commands ran at once: the process is given up
}

func newProcess(ctx context.Context, e *Engine, ns *tree.Namespace) *process {
	p := &process{e: e, ns: ns, listeners: make(map[int]func(killed)), quiet: make(chan struct{}), pipes: make(map[*os.File]struct{})}
	close(p.quiet)
	p.settled = make(chan struct{})
	close(p.settled)
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

var (
	errEnded    = errors.New("the process has ended")
	errCommands = errors.New("too many commands run at once")
)

// enter claims a place for a command; leave gives it back.
func (p *process) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return errEnded
	}
	if p.active >= p.e.opts.MaxCommands {
		p.crowded.Store(true)
		return errCommands
	}
	if p.active == 0 {
		p.quiet = make(chan struct{})
	}
	p.active++
	return nil
}

func (p *process) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active--; p.active == 0 {
		close(p.quiet)
	}
}

// idle is closed when no command runs.
func (p *process) idle() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.quiet
}

// end stops everything: no command begins any more, and those that run are
// awaited.
func (p *process) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.cancel()
	p.mu.Lock()
	for _, f := range p.substitutions {
		f.Close()
	}
	p.mu.Unlock()
	<-p.idle()
	p.handles.dropAll()
	p.closePipes()
}

// listen calls f, which must not block, with every signal that arrives.
func (p *process) listen(f func(killed)) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	id := p.next
	p.listeners[id] = f
	for _, k := range p.early {
		f(k)
	}
	p.early = nil
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.listeners, id)
	}
}

// signal calls every listener. No command begins to listen meanwhile, so that it
// either hears the signal or finds it waiting; what comes before the first one
// does is for that one.
func (p *process) signal(k killed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == 0 {
		p.early = append(p.early, k)
	}
	for _, f := range p.listeners {
		f(k)
	}
}

// streams are a command's.
type streams struct {
	in       io.Reader // nil reads as empty
	out, err io.Writer
}

// command is one to be run in a process.
type command struct {
	name    string   // what it is told it was called; empty: its path
	args    []string // without the name
	env     []string
	dir     string
	streams streams
	ignored func(killed) bool // signals that whoever started it ignores; nil: none

	descriptors func(name string) (handle, error) // from 3 on, of whoever started it; nil: none

	signals <-chan string // to this command alone; nil: none

	// waiting is a signal that came after the shell decided to run the command
	// and before the command could hear it. Nil: none.
	waiting func() (killed, bool)
}

// hear is listen for a command.
func (p *process) hear(c command, f func(killed)) (stop func()) {
	stop = p.listen(f)
	if c.signals != nil {
		stop = relayOwn(c.signals, f, stop)
	}
	if c.waiting == nil {
		return stop
	}
	if k, ok := c.waiting(); ok {
		f(k)
	}
	return stop
}

// relayOwn calls f with a command's own signals, too, until the stop that it
// returns, which calls then.
func relayOwn(signals <-chan string, f func(killed), then func()) (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				return
			case s := <-signals:
				if n, name, ok := signalNamed(s); ok {
					f(killed{n, name})
				}
			}
		}
	}()
	return func() {
		close(ended)
		<-done
		then()
	}
}
