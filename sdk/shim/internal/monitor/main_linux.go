package monitor

import (
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk/shim/internal/proc"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// Main is the life of a monitor. It returns when the supervisor has let it go, or is gone, and nothing of the command is left.
func Main() error {
	// From here on orphans of the command come to this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	// All signals are caught, so that none that is ignored here is ignored by the command, and none ends the monitor.
	caught := make(chan os.Signal, 64)
	signal.Notify(caught)
	heedSignals()
	if err := unix.SetNonblock(Socket, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	socket := os.NewFile(Socket, "supervisor")
	m := &monitor{conn: wire.NewConn(socket, socket)}

	proc.ReserveThreads(threads)
	if err := m.conn.WriteMessage(KindEvent, Event{Ready: true}); err != nil {
		return err
	}
	var err error
	if m.stdio, err = receiveFiles(socket); err == io.EOF {
		return nil // it was not needed
	}
	var c Command
	if err == nil {
		err = m.conn.ReadLong(&c)
	}
	if err != nil {
		return err
	}
	failed := m.start(c)
	if err := m.conn.WriteMessage(KindEvent, Event{Failed: wire.NewFailure(failed), Started: failed == nil}); err != nil && failed == nil {
		m.killTree() // nobody will ever hear of it
		return err
	}
	if failed != nil {
		return nil
	}
	requests := make(chan Signal)
	go m.receive(requests)
	return m.run(caught, requests)
}

// threads is how many a monitor has at hand before it starts anything: a container that is full later must not end it.
const threads = 4

// monitor is one process's owner. All but receive runs in one goroutine.
type monitor struct {
	conn    *wire.Conn
	stdio   [3]int // the command's
	leader  int
	gone    bool   // the leader is
	ended   *Ended // until that was told
	ownPeak int64  // of this process's memory when it made the leader, in KiB
}

// receive hands on what the supervisor wants, and closes the channel at its end.
func (m *monitor) receive(requests chan<- Signal) {
	defer close(requests)
	for {
		var s Signal
		if m.conn.ReadMessage(KindSignal, &s) != nil {
			return
		}
		requests <- s
	}
}

func (m *monitor) run(caught <-chan os.Signal, requests <-chan Signal) error {
	for {
		left := m.reap()
		if err := m.tell(left); err != nil {
			m.killTree()
			return err
		}
		if !left {
			return m.conn.WriteMessage(KindEvent, Event{Empty: true})
		}
		select {
		case <-caught: // a child has ended; other signals are not for us
		case s, ok := <-requests:
			if !ok {
				m.killTree()
				return nil
			}
			m.signal(unix.Signal(s.Number))
		}
	}
}

// reap collects the dead. It returns whether children are left.
func (m *monitor) reap() (left bool) {
	return proc.Reap(func(pid int, status unix.WaitStatus, usage unix.Rusage) {
		if pid != m.leader || m.gone {
			return
		}
		m.gone = true
		peak := usage.Maxrss
		if peak <= m.ownPeak { // the kernel counts what this process was when it forked: less than that it cannot tell
			peak = 0
		}
		m.ended = &Ended{Status: uint32(status), PeakMemoryBytes: peak * 1024, At: time.Now()}
	})
}

// tell tells once of the leader's end.
func (m *monitor) tell(left bool) error {
	if m.ended == nil {
		return nil
	}
	e := Event{Ended: m.ended}
	e.Ended.Left, m.ended = left, nil
	return m.conn.WriteMessage(KindEvent, e)
}

// signal signals the leader's group. Once the leader has been reaped, its number is its group's only as long as one of ours is in
// that group.
func (m *monitor) signal(s unix.Signal) {
	if s == unix.SIGKILL {
		m.killTree()
		return
	}
	if m.gone {
		all, _ := proc.Descendants(os.Getpid(), nil)
		ours := false
		for _, d := range all {
			ours = ours || d.Group == m.leader
		}
		if !ours {
			return
		}
	}
	_ = unix.Kill(-m.leader, s) // nobody there: nothing to do
}

// rescan is how long killTree trusts a process to die before it looks again. There is no event for the birth of a process.
const rescan = 20 * time.Millisecond

// killTree kills what is below this process until nothing is. What is killed cannot have children any more; what was born meanwhile is
// seen the next time. That the leader has ended is told afterwards, so that whoever hears of it finds nothing left.
func (m *monitor) killTree() {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)
	for {
		all, err := proc.Descendants(os.Getpid(), nil)
		if err != nil && !m.gone { // without /proc only the group can be reached
			_ = unix.Kill(-m.leader, unix.SIGKILL)
		}
		for _, d := range all {
			_ = d.Signal(unix.SIGSTOP) // first none of them may go on making others
		}
		forbidden := 0
		for _, d := range all {
			if d.Signal(unix.SIGKILL) == unix.EPERM {
				forbidden++
			}
		}
		left := m.reap()
		if !left || err != nil || forbidden > 0 && forbidden == len(all) {
			return
		}
		select {
		case <-died:
		case <-time.After(rescan):
		}
	}
}
