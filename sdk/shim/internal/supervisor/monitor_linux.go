package supervisor

import (
	"bufio"
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

// newMonitor makes a monitor that is up and waits for its command. One that dies before that has started nothing: a container that is full
// has no room for its threads.
func (s *Supervisor) newMonitor() (*monitorConn, error) {
	m, err := s.fork()
	if err != nil {
		return nil, err
	}
	var e monitor.Event
	_ = m.socket.SetDeadline(time.Now().Add(startTimeout))
	err = m.conn.ReadMessage(monitor.KindEvent, &e)
	_ = m.socket.SetDeadline(time.Time{})
	if err == nil && !e.Ready {
		err = wire.ErrProtocol
	}
	if err != nil {
		s.kill(m)
		m.wait()
		return nil, fmt.Errorf("its monitor has not come up (%w): see whether the container has room for its threads", err)
	}
	return m, nil
}

// socketBytes is read of a monitor at once: its events are short.
const socketBytes = 1 << 10

func (s *Supervisor) fork() (*monitorConn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "monitor's")
	defer theirs.Close()
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		return nil, os.NewSyscallError("fcntl", err)
	}
	socket := os.NewFile(uintptr(pair[0]), "monitor")
	m := &monitorConn{socket: socket, conn: wire.NewConn(bufio.NewReaderSize(socket, socketBytes), socket), reaped: make(chan struct{})}

	s.mu.Lock() // the reaper must not come before it knows of the monitor
	defer s.mu.Unlock()
	log := s.options.Log.Fd()
	m.pid, err = syscall.ForkExec(s.options.Program, []string{"slipway-shim", monitor.Verb}, &syscall.ProcAttr{
		Env:   monitorEnv(),
		Files: []uintptr{log, log, log, theirs.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("making its monitor of %s: %w", s.options.Program, err)
	}
	s.monitors[m.pid] = m
	return m, nil
}

// takeMonitor gives a monitor that has the command's files: the spare one if there is one, for making one takes longer than all else that a
// start does.
func (s *Supervisor) takeMonitor(id sdk.ProcessID, files [3]*os.File) (*monitorConn, error) {
	if m := s.takeSpare(); m != nil {
		if monitor.SendFiles(m.socket, files) == nil {
			return m, nil
		}
		s.kill(m) // somebody has done that before
		m.wait()
	}
	m, err := s.newMonitor()
	if err != nil {
		return nil, noRoom(id, err)
	}
	if err := monitor.SendFiles(m.socket, files); err != nil {
		s.kill(m)
		m.wait()
		return nil, noRoom(id, err)
	}
	return m, nil
}

// makeSpare makes a monitor for the next start. Without room for one there is none, and the next start says so if it must.
func (s *Supervisor) makeSpare() {
	s.mu.Lock()
	if s.spare != nil || s.sparing != nil || s.quiesced {
		s.mu.Unlock()
		return
	}
	made := make(chan struct{})
	s.sparing = made
	s.mu.Unlock()
	m, err := s.newMonitor()
	s.mu.Lock()
	s.sparing = nil
	if err == nil && !s.quiesced {
		s.spare, m = m, nil
	}
	s.mu.Unlock()
	close(made)
	if m != nil { // nothing is started any more
		m.close()
		m.wait()
	}
}

// takeSpare gives the spare monitor, also if it is only being made; nil if there is none.
func (s *Supervisor) takeSpare() *monitorConn {
	for {
		s.mu.Lock()
		m, sparing := s.spare, s.sparing
		s.spare = nil
		s.mu.Unlock()
		if m != nil || sparing == nil {
			return m
		}
		<-sparing
	}
}

// dropSpare lets the spare monitor go, and no other is made.
func (s *Supervisor) dropSpare() {
	if m := s.takeSpare(); m != nil {
		m.close()
		m.wait()
	}
}

// monitorEnv keeps the Go runtime of a monitor small.
func monitorEnv() []string { return []string{"GOMAXPROCS=1", "GOGC=20"} }

// noRoom says that a process was not started for want of something that there may be later.
func noRoom(id sdk.ProcessID, err error) error {
	return sdk.NewUnavailable(err, "process %q was not started: %v", id, err)
}

// start has the monitor start the command, and gives its answer.
func (m *monitorConn) start(spec sdk.ProcessSpec) (monitor.Event, error) {
	w := wire.NewStart(spec)
	var e monitor.Event
	_ = m.socket.SetDeadline(time.Now().Add(startTimeout))
	// A Conn keeps what it has sent: environments are not to be kept.
	err := wire.NewConn(nil, m.socket).WriteMessage(monitor.KindCommand, monitor.Command{
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
	if errors.Is(err, os.ErrClosed) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
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
			p.killed.Store(true)
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

// killOrphans kills what a dead monitor has left: all below this process that belongs to no living monitor. false: something may be left.
func (s *Supervisor) killOrphans() bool {
	deadline := time.Now().Add(killTimeout)
	for time.Now().Before(deadline) {
		all, err := proc.Descendants(os.Getpid(), func(pid int) bool {
			s.mu.Lock()
			_, living := s.monitors[pid]
			s.mu.Unlock()
			return living
		})
		if err != nil || len(all) == 0 {
			return err == nil
		}
		for _, p := range all {
			_ = p.Signal(unix.SIGSTOP)
		}
		for _, p := range all {
			_ = p.Signal(unix.SIGKILL)
		}
		time.Sleep(time.Millisecond) // of a birth or an adoption no event tells
	}
	return false
}

// signalName is the signal's name without SIG.
func signalName(s unix.Signal) sdk.Signal {
	if name := unix.SignalName(s); len(name) > 3 {
		return sdk.Signal(name[3:])
	}
	if s < 34 {
		return sdk.Signal(strconv.Itoa(int(s))) // of C libraries, which give it no name
	}
	return sdk.Signal(fmt.Sprintf("RTMIN+%d", int(s)-34))
}
