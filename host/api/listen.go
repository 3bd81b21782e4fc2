package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// socket is a listener whose file goes with it.
type socket struct {
	*net.UnixListener
	path string
	made os.FileInfo
}

// Listen makes a unix socket at an address, such as unix:///run/slipway.sock, that only this user can reach. What an earlier daemon left there
// is replaced; one that answers is refused.
func Listen(ctx context.Context, address string) (_ net.Listener, err error) {
	path, err := socketPath(address)
	if err != nil {
		return nil, err
	}
	if fi, err := os.Lstat(path); err == nil {
		if fi.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("listen at %s: there is something else already: remove it, or give another --listen", path)
		}
		var d net.Dialer
		if conn, err := d.DialContext(ctx, "unix", path); err == nil {
			return nil, errors.Join(fmt.Errorf("listen at %s: another program listens there already: end it, or give another --listen", path), conn.Close())
		}
	}
	// Made where nobody else can go, then moved: nobody can reach it before its mode is right.
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fresh := filepath.Join(dir, "s")
	if n := len(fresh); n > maxSocketPath || len(path) > maxSocketPath {
		return nil, fmt.Errorf("listen at %s: a socket's path has at most %d bytes, and this needs %d: give a shorter one with --listen", path, maxSocketPath,
			max(n, len(path)))
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(fresh, 0o600); err == nil {
		err = os.Rename(fresh, path)
	}
	s := &socket{UnixListener: l, path: path}
	if err == nil {
		s.made, err = os.Lstat(path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen at %s: %w", path, err), l.Close())
	}
	return s, nil
}

// maxSocketPath is what every system can have, the end mark included.
const maxSocketPath = 103

// Close ends listening, and removes the file unless another has taken its place.
func (s *socket) Close() error {
	err := s.UnixListener.Close()
	if fi, serr := os.Lstat(s.path); serr == nil && os.SameFile(fi, s.made) {
		err = errors.Join(err, os.Remove(s.path))
	}
	return err
}

// Serve answers until ctx ends. It then closes l, and what is being answered comes to its end: until a short time after last has ended,
// too. End ctx, close the server, then end last: so nobody comes to a daemon any more whose state directory another may have.
func Serve(ctx, last context.Context, l net.Listener, h http.Handler) error {
	return serveIdle(ctx, last, l, h, idleTime)
}

func serveIdle(ctx, last context.Context, l net.Listener, h http.Handler, idle time.Duration) error {
	var both http.Protocols
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	srv := &http.Server{Handler: h, Protocols: &both, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: idle, HTTP2: &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: connectionBuffer}}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return errors.Join(err, srv.Close())
	case <-ctx.Done():
	}
	lctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-last.Done():
		case <-lctx.Done():
			return
		}
		late := time.NewTimer(lastAnswers)
		defer late.Stop()
		select {
		case <-late.C:
			cancel()
		case <-lctx.Done():
		}
	}()
	err := srv.Shutdown(lctx)
	if lctx.Err() != nil && errors.Is(err, lctx.Err()) {
		err = srv.Close()
	}
	cancel()
	<-watched
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

const (
	// maxStreams is how many calls one client's connection may have at once: one for each step that is followed, and some.
	maxStreams = 10_000
	// streamBuffer is how much of what a client sends waits for a call that reads slowly, or not at all: a stdin that nobody takes, say.
	streamBuffer = 256 << 10
	// connectionBuffer is the same of all calls on a connection. It is far more, for once it is full no other call gets through, not even
	// the one that would end the slow ones. Memory is used only for what a client really sends.
	connectionBuffer = 1 << 30
	// idleTime is how long a connection stays open that nobody uses: a client that went without a word has no end otherwise.
	idleTime = 3 * time.Minute
	// lastAnswers is how long answers under way may take when the server ends.
	lastAnswers = 5 * time.Second
)

// AddressFile is the name of the file in a state directory that says where its daemon listens.
const AddressFile = "serve.addr"

// SocketFile is the name of a daemon's socket in its state directory, where no other address was asked for.
const SocketFile = "serve.sock"

// Announce writes where a state directory's daemon listens; the caller has the directory locked. Withdraw undoes it.
func Announce(stateDir, address string) (withdraw func() error, err error) {
	path := filepath.Join(stateDir, AddressFile)
	if err := os.WriteFile(path+".new", []byte(address+"\n"), 0o600); err != nil {
		return nil, err
	}
	return func() error { return os.Remove(path) }, os.Rename(path+".new", path)
}

// Announced is where the daemon of a state directory listens, or did. fs.ErrNotExist: it has had none.
func Announced(stateDir string) (address string, err error) {
	text, err := os.ReadFile(filepath.Join(stateDir, AddressFile))
	return strings.TrimSpace(string(text)), err
}
