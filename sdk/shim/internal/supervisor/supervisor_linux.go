// Package supervisor is the keeper of a container: it starts processes exactly once, has their pipes, journals and exits, and answers
// drivers on a socket. There is one for each container, and never a second one: what was running when it died is over.
//
// It leaves the commands themselves to monitors (package monitor), one for each, and what is written down to package record.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/proc"
	"github.com/slipway-run/slipway/sdk/shim/internal/record"
	"github.com/slipway-run/slipway/sdk/shim/internal/server"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// ErrBorn says that there is, or was, a supervisor on this scratch volume.
var ErrBorn = errors.New("this container has had its supervisor; there is never a second one")

// Options are a supervisor's surroundings.
type Options struct {
	Program string // its own file, to make monitors of
	Version string // of the program
	Log     *os.File
}

// Supervisor keeps the processes of one container.
type Supervisor struct {
	scratch string
	name    string // that no other has
	options Options
	log     *slog.Logger
	lock    *os.File
	socket  *net.UnixListener
	can     abilities

	disk chan struct{}   // for who may wait for the scratch volume: each takes a thread
	life context.Context // Run's: once it has ended nobody makes room in a journal

	mu        sync.Mutex
	processes map[sdk.ProcessID]*process
	monitors  map[int]*monitorConn // by pid, those that were not reaped
	spare     *monitorConn         // for the next start; nil: there is none
	sparing   chan struct{}        // closed when the one that is being made is made; nil: none is
	quiesced  bool
	sessions  []*net.UnixConn // the oldest first
	work      sync.WaitGroup  // of sessions and processes
}

// maxSessions is more than the drivers of a container have at once. Those of relays that were cut are here until they are found to be silent.
const maxSessions = 32

// threads is how many a supervisor has at hand: when the container is full of processes there will be no more.
const threads = 10

// New makes the supervisor of the container whose scratch volume is mounted at that path, and listens. It is ErrBorn if there has
// been one before.
func New(scratch string, o Options) (*Supervisor, error) {
	if err := enter(scratch); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	s := &Supervisor{
		scratch: ".", name: string(sdk.NewToken()), options: o, log: slog.New(slog.NewTextHandler(&bounded{f: o.Log, left: maxLog}, nil)),
		processes: make(map[sdk.ProcessID]*process), monitors: make(map[int]*monitorConn), disk: make(chan struct{}, threads/2),
	}
	s.work.Go(s.makeSpare) // while this is born; should it not be, the monitor ends with this process
	if err := s.beBorn(); err != nil {
		return nil, err
	}
	s.can = findAbilities()
	return s, nil
}

// enter goes to the scratch volume.
func enter(scratch string) error {
	// The socket's path is relative, for it may have 107 bytes only, and mount paths may be long.
	if err := os.Chdir(scratch); err != nil {
		return err
	}
	unix.Umask(0o077)
	return os.Chmod(".", 0o700) // it is private, whatever the runtime made
}

// beBorn takes the lock that says that there is a supervisor, then opens the socket. The lock appears locked: nobody ever sees it free
// while this process lives.
func (s *Supervisor) beBorn() (err error) {
	name := record.Lock + "." + s.name
	s.lock, err = os.OpenFile(s.path(name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.lock.Close()
		}
	}()
	if err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(os.NewSyscallError("flock", err), os.Remove(s.path(name)))
	}
	if _, err := s.lock.WriteString(s.name); err != nil {
		return errors.Join(err, os.Remove(s.path(name)))
	}
	if err := renameNew(s.path(name), s.path(record.Lock)); err != nil {
		if errors.Is(err, unix.EEXIST) {
			err = ErrBorn
		}
		return errors.Join(err, os.Remove(s.path(name)))
	}
	s.socket, err = net.ListenUnix("unix", &net.UnixAddr{Name: s.path(record.Socket) + ".new"})
	if err != nil {
		return err
	}
	s.socket.SetUnlinkOnClose(false)
	return os.Rename(s.path(record.Socket)+".new", s.path(record.Socket))
}

// renameNew renames, but replaces nothing.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS { // a file system or kernel without: a link is as exclusive
		if err = unix.Link(from, to); err == nil {
			err = unix.Unlink(from)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (s *Supervisor) path(names ...string) string {
	return filepath.Join(append([]string{s.scratch}, names...)...)
}

// Run serves drivers until ctx ends. Then it kills all processes, and returns when nothing of them is left.
func (s *Supervisor) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.life = ctx
	defer s.reaping()()
	stop := context.AfterFunc(ctx, func() { s.socket.Close() })
	defer stop()
	s.work.Go(func() { proc.ReserveThreads(threads) })
	err := s.accept(ctx)
	cancel()
	s.killAll()
	s.dropSpare()
	s.work.Wait()
	return err
}

func (s *Supervisor) accept(ctx context.Context) error {
	for {
		conn, err := s.socket.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil { // there is no room for it, or it has gone: no reason to end what runs
			s.log.Warn("a driver was not accepted", "error", err)
			select { // until something else is closed, of which nobody tells
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		s.work.Go(func() { s.serve(ctx, conn) })
	}
}

func (s *Supervisor) serve(ctx context.Context, conn *net.UnixConn) {
	if err := checkPeer(conn); err != nil {
		s.log.Warn("refused a connection", "error", err)
		conn.Close()
		return
	}
	s.enter(conn)
	defer s.leave(conn)
	_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if err := wire.WriteHello(conn, s.Hello()); err != nil {
		conn.Close()
		return
	}
	_ = conn.SetWriteDeadline(time.Time{})
	if err := server.Serve(ctx, conn, s); err != nil {
		s.log.Info("a session ended", "error", err)
	}
}

// enter makes room for a session. The oldest gives way, whose relay was most likely cut: to refuse the newest would keep the driver out that
// comes back after many cuts.
func (s *Supervisor) enter(conn *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) == maxSessions {
		s.sessions[0].Close() // which ends it
		s.sessions = slices.Delete(s.sessions, 0, 1)
	}
	s.sessions = append(s.sessions, conn)
}

func (s *Supervisor) leave(conn *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = slices.DeleteFunc(s.sessions, func(c *net.UnixConn) bool { return c == conn })
}

// Hello is what it says of itself.
func (s *Supervisor) Hello() wire.Hello {
	return wire.Hello{
		State: wire.StateReady, Program: s.options.Version, PID: os.Getpid(), Keeper: s.name, Features: s.can.features, Notes: s.can.notes,
	}
}

// checkPeer lets in root and the supervisor's own user. The directory's mode keeps others out already.
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return e
	}
	if err != nil {
		return os.NewSyscallError("getsockopt(SO_PEERCRED)", err)
	}
	if cred.Uid != 0 && cred.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("user %d may not talk to the keeper", cred.Uid)
	}
	return nil
}
