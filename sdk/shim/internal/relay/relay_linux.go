// Package relay is what an exec into a container runs: it finds the container's keeper and connects it with the exec's stdin and
// stdout. Where the keeper is dead it answers in its stead, from the records.
package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/record"
	"github.com/slipway-run/slipway/sdk/shim/internal/server"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// bornWithin is how long the keeper of a container may take to appear after a first exec came. An exec may come before it: where the
// keeper is the container's own command, the runtime starts both.
const bornWithin = 5 * time.Second

// Run relays until either side ends. It speaks the Hello, or lets the keeper do so. Unborn, if not nil, is why the caller could not make a
// keeper itself.
func Run(ctx context.Context, scratch, version string, unborn error, stdin, stdout *os.File) error {
	if err := os.Chdir(scratch); err != nil { // the socket's path must be short
		return refuse(stdout, version, wire.StateNone, err)
	}
	state, err := await(ctx, bornWithin)
	if err != nil {
		return refuse(stdout, version, wire.StateNone, err)
	}
	switch state {
	case wire.StateDead:
		h := wire.Hello{State: wire.StateDead, Program: version, Keeper: keeperName()}
		if err := wire.WriteHello(stdout, h); err != nil {
			return err
		}
		remains := server.Remains{Remains: record.Remains{Scratch: os.DirFS(".")}}
		return server.Serve(ctx, &stdio{stdin, stdout}, remains)
	case wire.StateReady:
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: record.Socket})
		if err != nil {
			return refuse(stdout, version, wire.StateBusy, err)
		}
		return relay(conn, stdin, stdout)
	}
	if unborn == nil {
		unborn = errors.New("no keeper was ever started in this container")
	}
	return refuse(stdout, version, state, unborn)
}

// refuse says why there is no session.
func refuse(stdout io.Writer, version string, state wire.State, why error) error {
	return errors.Join(why, wire.WriteHello(stdout, wire.Hello{State: state, Program: version, Error: wire.NewFailure(sdk.NewUnavailable(why, "%v", why))}))
}

// keeperName is what a keeper that is gone was called; empty where that cannot be read, any more than the rest of its records.
func keeperName() string {
	const most = 64
	lock, err := os.Open(record.Lock)
	if err != nil {
		return ""
	}
	defer lock.Close()
	name, err := io.ReadAll(io.LimitReader(lock, most))
	if err != nil {
		return ""
	}
	return string(name)
}

// await looks for the keeper, and for a while waits for one to be born.
func await(ctx context.Context, within time.Duration) (wire.State, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if state, err := look(); err != nil || state == wire.StateReady || state == wire.StateDead {
		return state, err // of watches a whole machine may have none left
	}
	changes, err := watch(ctx, ".")
	if err != nil {
		return wire.StateNone, err
	}
	for {
		state, err := look()
		if err != nil || state == wire.StateReady || state == wire.StateDead {
			return state, err
		}
		if _, ok := <-changes; !ok {
			return state, nil
		}
	}
}

// look tells how the keeper is.
func look() (wire.State, error) {
	lock, err := os.Open(record.Lock)
	if errors.Is(err, os.ErrNotExist) {
		return wire.StateNone, nil
	}
	if err != nil {
		return wire.StateNone, err
	}
	defer lock.Close()
	switch err := unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB); err {
	case nil:
		return wire.StateDead, nil // nobody holds it; we let go of it at once
	case unix.EWOULDBLOCK:
	default:
		return wire.StateNone, os.NewSyscallError("flock", err)
	}
	if _, err := os.Lstat(record.Socket); err != nil {
		return wire.StateBusy, nil // it is being born
	}
	return wire.StateReady, nil
}

// watch tells of new names in a directory until ctx ends; then the channel is closed. It may tell of changes that are none.
func watch(ctx context.Context, dir string) (<-chan struct{}, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
		f.Close()
		return nil, os.NewSyscallError("inotify_add_watch", err)
	}
	changes := make(chan struct{})
	context.AfterFunc(ctx, func() { f.Close() })
	go func() { // ends with ctx, which closes f
		defer close(changes)
		buf := make([]byte, 4<<10)
		for {
			if _, err := f.Read(buf); err != nil {
				return
			}
			select {
			case changes <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return changes, nil
}

// copyBytes is copied at a time. Splicing, which the standard library would do, moves a socket's bytes in far smaller pieces.
const copyBytes = 128 << 10

// relay copies both ways until either ends: a session has no half ends. The other copy may still be blocked on a stdin that cannot be
// interrupted; it ends with the process, which is next.
func relay(conn *net.UnixConn, stdin, stdout *os.File) error {
	ended := make(chan error, 2)
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{stdin}, make([]byte, copyBytes))
		ended <- err
	}()
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{stdout}, struct{ io.Reader }{conn}, make([]byte, copyBytes))
		ended <- err
	}()
	err := <-ended
	conn.Close()
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}

// stdio is both as one connection.
type stdio struct{ in, out *os.File }

func (s *stdio) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *stdio) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s *stdio) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }
