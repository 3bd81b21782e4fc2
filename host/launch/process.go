package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

// process is one running plugin program: its group, its pipes and its private directory. Everything here is over, and
// every goroutine gone, when done is closed.
type process struct {
	pid    int
	dir    *privateDir
	out    *output
	log    *slog.Logger
	stdin  *os.File      // closing it asks the plugin to end
	gone   chan struct{} // closed when it has ended, or is about to be killed
	exited chan struct{}
	done   chan struct{}

	exit Exit // to be read once done is closed

	giveUp func() // closes gone

	mu     sync.Mutex
	reaped bool // the pid may belong to somebody else
}

// command is what to execute.
type command struct {
	path   string
	pinned *os.File // the file to execute in path's place; nil: by path
	args   []string
	env    []string
	cwd    string
	dir    *privateDir // removed when the process is gone; if it cannot be started it is left to the caller
}

// startProcess starts it. One goroutine, on a thread of its own, starts and awaits it, for on Linux the death signal is sent
// when the starting thread ends, not when the host does.
func startProcess(c command, log *slog.Logger) (*process, error) {
	p := &process{dir: c.dir, log: log, gone: make(chan struct{}), exited: make(chan struct{}), done: make(chan struct{})}
	p.giveUp = sync.OnceFunc(func() { close(p.gone) })
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		proc, ends, err := p.start(c)
		if err != nil {
			started <- err
			return
		}
		started <- nil
		p.await(proc, ends)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// pipeEnds are the host's ends that are read.
type pipeEnds struct{ stdout, stderr *os.File }

func (p *process) start(c command) (*os.Process, pipeEnds, error) {
	var child, host []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			f.Close()
		}
	}
	for fd := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(child)
			closeAll(host)
			return nil, pipeEnds{}, startError(c.path, err)
		}
		if fd == 0 {
			child, host = append(child, r), append(host, w)
		} else {
			child, host = append(child, w), append(host, r)
		}
	}
	defer closeAll(child)

	path, files := c.path, child
	if c.pinned != nil {
		path, files = pinnedPath(c.path, c.pinned, child)
	}
	proc, err := os.StartProcess(path, append([]string{c.path}, c.args...),
		&os.ProcAttr{Dir: c.cwd, Env: c.env, Files: onlyThese(files), Sys: sysProcAttr()})
	if err != nil {
		closeAll(host)
		return nil, pipeEnds{}, startError(c.path, err)
	}
	p.pid, p.stdin = proc.Pid, host[0]
	p.exit = Exit{PID: proc.Pid}
	p.log = p.log.With("pid", proc.Pid)
	p.out = newOutput(p.log)
	return proc, pipeEnds{stdout: host[1], stderr: host[2]}, nil
}

// await sees the process off.
func (p *process) await(proc *os.Process, ends pipeEnds) {
	defer close(p.done)
	var readers sync.WaitGroup
	readers.Go(func() { p.out.readStdout(&lastWords{pipe: ends.stdout}) })
	readers.Go(func() { p.out.readStderr(&lastWords{pipe: ends.stderr}) })

	state, err := p.reap(proc)

	p.exit.At = time.Now()
	p.exit.Code, p.exit.Signal = exitStatus(state)
	if err != nil {
		p.log.Error("plugin's exit status is unknown", "error", err)
	}
	close(p.exited)
	p.giveUp()

	// A process that left the group may hold the pipes for as long as it likes.
	deadline := time.Now().Add(pipeGrace)
	ends.stdout.SetReadDeadline(deadline)
	ends.stderr.SetReadDeadline(deadline)
	readers.Wait()
	ends.stdout.Close()
	ends.stderr.Close()
	p.stdin.Close()
	p.exit.StderrTail = p.out.tail()
	if err := p.dir.remove(); err != nil {
		p.log.Warn("the plugin's private directory could not be removed", "dir", p.dir.path, "error", err)
	}
}

// reap waits for the leader and kills what is left of its group.
func (p *process) reap(proc *os.Process) (*os.ProcessState, error) {
	if awaitExit(proc) { // a zombie: its pid, and so the group's id, cannot be anybody else's
		p.signalGroup(sigKill)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reaped = true
		return proc.Wait()
	}
	state, err := proc.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	_ = sendSignal(p.pid, sigKill, true) // an id that still names a group is not given away; mostly none is left
	return state, err
}

// stop ends the process and waits until nothing is left of it: end of stdin, SIGTERM after grace, SIGKILL of its group
// after term. When ctx ends it is killed at once. The error says that even this did not end it.
func (p *process) stop(ctx context.Context, grace, term time.Duration) error {
	p.stdin.Close()
	if p.awaitDone(ctx, grace) {
		return nil
	}
	if ctx.Err() == nil {
		p.log.Info("plugin did not end with its stdin; sending SIGTERM", "after", grace)
		p.signal(sigTerm)
		if p.awaitDone(ctx, term) {
			return nil
		}
	}
	p.log.Warn("plugin did not end when asked; killing it")
	return p.kill()
}

// dump asks a process that does not answer what it is doing, then kills it. Go programs write their goroutines to stderr
// and end at SIGQUIT; one that was stopped is continued for that.
func (p *process) dump(ctx context.Context, grace time.Duration) error {
	p.giveUp()
	p.signal(sigQuit)
	p.signal(sigCont)
	if p.awaitDone(ctx, grace) {
		return nil
	}
	return p.kill()
}

func (p *process) kill() error {
	p.giveUp()
	p.signalGroup(sigKill)
	if p.awaitDone(context.Background(), killGrace+pipeGrace) {
		return nil
	}
	return p.stuck()
}

func (p *process) stuck() error {
	return fmt.Errorf("process %d has not ended %v after SIGKILL: it is stuck in the kernel; its directory %s stays", p.pid, killGrace, p.dir.path)
}

// awaitDone tells whether nothing is left, waiting at most so long for the process's end.
func (p *process) awaitDone(ctx context.Context, atMost time.Duration) bool {
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-p.exited:
		<-p.done // soon, by pipeGrace
		return true
	case <-ctx.Done():
	case <-t.C:
	}
	return false
}

func (p *process) signal(sig os.Signal)      { p.send(sig, false) }
func (p *process) signalGroup(sig os.Signal) { p.send(sig, true) }

func (p *process) send(sig os.Signal, group bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	if err := sendSignal(p.pid, sig, group); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.log.Debug("signal not sent", "signal", sig, "error", err)
	}
}

// childEnv is the whole environment of a plugin: its own, what the operator allowed, and the handshake's.
func childEnv(allowed, handshake map[string]string, dir string) []string {
	env := map[string]string{
		"PATH":   "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME":   dir,
		"TMPDIR": filepath.Join(dir, "tmp"),
		"LANG":   "C.UTF-8",
	}
	if runtime.GOOS == "windows" {
		env["PATH"], env["SystemRoot"], env["TMP"] = os.Getenv("PATH"), os.Getenv("SystemRoot"), env["TMPDIR"]
	}
	maps.Copy(env, allowed)
	maps.Copy(env, handshake)
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}

// endsWithin tells whether the process ends in that time.
func (p *process) endsWithin(d time.Duration) bool { return p.awaitDone(context.Background(), d) }
