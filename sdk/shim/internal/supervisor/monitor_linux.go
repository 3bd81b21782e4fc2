package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/monitor"
	"github.com/slipway-run/slipway/sdk/shim/internal/proc"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// monitorConn is the supervisor's end of a monitor.
type monitorConn struct {
	pid    int
	socket *os.File
	conn   *wire.Conn
	reaped chan struct{}
	status unix.WaitStatus // once it is reaped
}

// newMonitor makes a monitor, with those files for its command's stdin, stdout and stderr.
func (s *Supervisor) newMonitor(p *process, stdio [3]*os.File) (*monitorConn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, noRoom(p.id, os.NewSyscallError("socketpair", err))
	}
	theirs := os.NewFile(uintptr(pair[1]), "monitor's")
	defer theirs.Close()
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		return nil, noRoom(p.id, os.NewSyscallError("fcntl", err))
	}
	socket := os.NewFile(uintptr(pair[0]), "monitor")
	m := &monitorConn{socket: socket, conn: wire.NewConn(socket, socket), reaped: make(chan struct{})}

	s.mu.Lock() // the reaper must not come before it knows of the monitor
	defer s.mu.Unlock()
	log := s.options.Log.Fd()
	m.pid, err = syscall.ForkExec(s.options.Program, []string{"slipway-shim", monitor.Verb}, &syscall.ProcAttr{
		Env:   monitorEnv(),
		Files: []uintptr{log, log, log, theirs.Fd(), stdio[0].Fd(), stdio[1].Fd(), stdio[2].Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		socket.Close()
		return nil, noRoom(p.id, fmt.Errorf("making its monitor of %s: %w", s.options.Program, err))
	}
	s.monitors[m.pid] = m
	return m, nil
}

// monitorEnv keeps the Go runtime of a monitor small.
func monitorEnv() []string { return []string{"GOMAXPROCS=1", "GOGC=20"} }

// noRoom says that a process was not started for want of something that there may be later.
func noRoom(id sdk.ProcessID, err error) error {
	return sdk.NewUnavailable(err, "process %q was not started: %v", id, err)
}

// ready awaits that the monitor is up. One that dies before has started nothing: a container that is full has no room for its threads.
func (m *monitorConn) ready(id sdk.ProcessID) error {
	var e monitor.Event
	_ = m.socket.SetDeadline(time.Now().Add(startTimeout))
	err := m.conn.ReadMessage(monitor.KindEvent, &e)
	_ = m.socket.SetDeadline(time.Time{})
	if err == nil && !e.Ready {
		err = wire.ErrProtocol
	}
	if err != nil {
		return noRoom(id, fmt.Errorf("its monitor has not come up (%w): see whether the container has room for its threads", err))
	}
	return nil
}

// start has the monitor start the command, and gives its answer.
func (m *monitorConn) start(spec sdk.ProcessSpec) (monitor.Event, error) {
	w := wire.NewStart(spec)
	var e monitor.Event
	_ = m.socket.SetDeadline(time.Now().Add(startTimeout))
	err := m.conn.WriteMessage(monitor.KindCommand, monitor.Command{
		Path: w.Path, Args: w.Args, Env: w.Env, Dir: w.Dir, User: w.User, TTY: w.TTY != nil,
	})
	if err == nil {
		err = m.conn.ReadMessage(monitor.KindEvent, &e)
	}
	_ = m.socket.SetDeadline(time.Time{})
	if err == nil && !e.Started && e.Failed == nil {
		err = wire.ErrProtocol
	}
	return e, err
}

// ended awaits the end of the leader.
func (m *monitorConn) ended() (*monitor.Ended, error) {
	var e monitor.Event
	if err := m.conn.ReadMessage(monitor.KindEvent, &e); err != nil {
		return nil, err
	}
	if e.Ended == nil {
		return nil, wire.ErrProtocol
	}
	return e.Ended, nil
}

// wait awaits the end of the monitor, and with it of all that the command has left; false: it was killed, and may have left something.
func (m *monitorConn) wait() bool {
	<-m.reaped
	m.close()
	return m.status.Exited()
}

// kill ends a monitor that is of no use any more and may not even hear that.
func (s *Supervisor) kill(m *monitorConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.monitors[m.pid] == m { // it is not reaped: the number is its own
		_ = unix.Kill(m.pid, unix.SIGKILL)
	}
}

// close makes the monitor kill its tree and end.
func (m *monitorConn) close() { m.socket.Close() }

// signalTimeout bounds a signal to a monitor that does not listen: one that is stopped, which only root in the container can have done.
const signalTimeout = 5 * time.Second

func (m *monitorConn) signal(signal sdk.Signal) error {
	_ = m.socket.SetWriteDeadline(time.Now().Add(signalTimeout))
	err := m.conn.WriteMessage(monitor.KindSignal, monitor.Signal{Number: signal.Number()})
	if errors.Is(err, os.ErrClosed) || errors.Is(err, unix.EPIPE) {
		return nil // it has just ended
	}
	return err
}

// reaping collects whatever ends below this process, until the function that it returns has been called.
func (s *Supervisor) reaping() (stop func()) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			s.mu.Lock()
			proc.Reap(func(pid int, status unix.WaitStatus, _ unix.Rusage) {
				if m, ok := s.monitors[pid]; ok {
					delete(s.monitors, pid)
					m.status = status
					close(m.reaped)
				}
			})
			s.mu.Unlock()
			select {
			case <-died:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(died)
		cancel()
		<-stopped
	}
}

// killTimeout bounds the end of what is killed. Only a process that waits for its disk holds out that long.
const killTimeout = 10 * time.Second

// killAll ends every process, as the container's end would.
func (s *Supervisor) killAll() {
	s.mu.Lock()
	s.quiesced = true
	all := make([]*process, 0, len(s.processes))
	for _, p := range s.processes {
		all = append(all, p)
	}
	s.mu.Unlock()
	timeout := time.NewTimer(killTimeout)
	defer timeout.Stop()
	for _, p := range all {
		<-p.decided
		if p.failed == nil && p.monitor != nil {
			_ = p.monitor.signal(sdk.KILL)
		}
	}
	for _, p := range all {
		if p.failed != nil {
			continue
		}
		select {
		case <-p.over:
		case <-timeout.C:
			s.log.Error("something outlives the container's keeper", "process", p.id)
			return
		}
	}
}

// killOrphans kills what a dead monitor has left: all below this process that belongs to no living monitor and is not of this program, as
// relays are.
func (s *Supervisor) killOrphans() {
	deadline := time.Now().Add(killTimeout)
	for time.Now().Before(deadline) {
		all, err := proc.Descendants(os.Getpid(), func(pid int) bool {
			s.mu.Lock()
			_, living := s.monitors[pid]
			s.mu.Unlock()
			return living || s.isOurs(pid)
		})
		if err != nil || len(all) == 0 {
			return
		}
		for _, p := range all {
			_ = p.Signal(unix.SIGSTOP)
		}
		for _, p := range all {
			_ = p.Signal(unix.SIGKILL)
		}
		time.Sleep(time.Millisecond) // of a birth or an adoption no event tells
	}
}

func (s *Supervisor) isOurs(pid int) bool {
	theirs, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil {
		return false
	}
	ours, err := os.Stat(s.options.Program)
	return err == nil && os.SameFile(ours, theirs)
}

// signalName is the signal's name without SIG.
func signalName(s unix.Signal) sdk.Signal {
	if name := unix.SignalName(s); len(name) > 3 {
		return sdk.Signal(name[3:])
	}
	return sdk.Signal(fmt.Sprintf("RTMIN+%d", int(s)-34))
}
