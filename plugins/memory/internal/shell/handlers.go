package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/interp"

	"github.com/slipway-run/slipway/plugins/memory/internal/tools"
)

// umaskKey is for the umask of whoever started a command, in a context.
type umaskKey struct{}

const defaultUmask = 0o022

func umaskOf(ctx context.Context) fs.FileMode {
	if m, ok := ctx.Value(umaskKey{}).(fs.FileMode); ok {
		return m
	}
	return defaultUmask
}

// open implements interp.OpenHandlerFunc. What is read becomes a pipe, which
// the interpreter closes with the command; anything else it would copy into a
// pipe of its own that nobody closes.
func (u *unit) open(ctx context.Context, name string, flag int, perm fs.FileMode) (io.ReadWriteCloser, error) {
	if err := u.p.enter(); err != nil {
		return nil, err
	}
	defer u.p.leave()
	hc := interp.HandlerCtx(ctx)
	reads := flag&(os.O_WRONLY|os.O_RDWR) == 0
	if text, ok := u.text(name); ok && reads {
		return u.p.content(io.NopCloser(strings.NewReader(text)))
	}
	if fd, ok := tools.Descriptor(hc.Dir, name); ok {
		return u.openDescriptor(hc, fd, name, reads)
	}
	if dev, ok := tools.Device(hc.Dir, name); ok {
		return u.openDevice(hc, dev, name, reads)
	}
	if !reads {
		perm = 0o666 &^ fs.FileMode(u.umask.Load())
	}
	f, err := u.p.ns.Open(hc.Dir, name, flag, perm)
	if err != nil {
		return nil, asPathError("open", name, err)
	}
	if !reads {
		return f, nil
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	pipe, err := u.p.content(f)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return pipe, nil
}

// asPathError makes every error one of a path: another would end the script.
func asPathError(op, name string, err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (u *unit) openDevice(hc interp.HandlerContext, dev, name string, reads bool) (io.ReadWriteCloser, error) {
	denied := &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	if reads {
		switch dev {
		case "stdin":
			if hc.Stdin == nil {
				return u.p.content(io.NopCloser(strings.NewReader("")))
			}
			return u.p.content(io.NopCloser(hc.Stdin))
		case "stdout", "stderr":
			return nil, denied
		}
		return u.p.content(io.NopCloser(tools.DeviceReader(dev)))
	}
	switch dev {
	case "stdin":
		return nil, denied
	case "stdout":
		return output{hc.Stdout}, nil
	case "stderr":
		return output{hc.Stderr}, nil
	}
	return output{tools.DeviceWriter(dev)}, nil
}

// output is a writer as the interpreter wants a file.
type output struct{ io.Writer }

func (output) Read([]byte) (int, error) { return 0, syscall.EBADF }
func (output) Close() error             { return nil }

func (u *unit) readDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if err := u.p.enter(); err != nil {
		return nil, err
	}
	defer u.p.leave()
	return u.p.ns.ReadDir(interp.HandlerCtx(ctx).Dir, name)
}

func (u *unit) stat(ctx context.Context, name string, follow bool) (fs.FileInfo, error) {
	hc := interp.HandlerCtx(ctx)
	_, fd := tools.Descriptor(hc.Dir, name)
	if _, ok := tools.Device(hc.Dir, name); ok || fd {
		name = "/dev/null"
	}
	if follow {
		return u.p.ns.Stat(hc.Dir, name)
	}
	return u.p.ns.Lstat(hc.Dir, name)
}

// access says what the modes say, to root: everything, but to execute a file
// that nobody may.
func (u *unit) access(ctx context.Context, name string, mode interp.AccessMode) error {
	info, err := u.stat(ctx, name, true)
	if err != nil {
		return err
	}
	if mode&interp.AccessExec != 0 && !info.IsDir() && info.Mode()&0o111 == 0 {
		return syscall.EACCES
	}
	return nil
}

// exec implements interp.ExecHandlerFunc: everything that is neither a function
// nor a builtin ends here, and nothing goes further.
func (u *unit) exec(ctx context.Context, args []string) (err error) {
	hc := interp.HandlerCtx(ctx)
	if err := u.p.enter(); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	defer u.p.leave()
	defer func() {
		if v := recover(); v != nil {
			fmt.Fprintf(hc.Stderr, "%s: %s: internal error: %v\n", u.name, args[0], v)
			err = interp.ExitStatus(usage)
		}
	}()
	if name, ok := own(args[0]); ok {
		if f := ownBuiltin(name); f != nil {
			return f(u, ctx, hc, args[1:])
		}
		return u.runBuiltin(ctx, hc, name, args[1:])
	}
	code := u.runCommand(ctx, hc, args)
	// A signal that ended the command may have a trap, which comes before errexit.
	if body, ok := u.pendingTrap(hc); ok {
		if err := hc.Builtin(ctx, []string{"eval", body + "\n:"}); err != nil {
			return err
		}
	}
	return status(code)
}

func (u *unit) runCommand(ctx context.Context, hc interp.HandlerContext, args []string) int {
	ctx = context.WithValue(ctx, umaskKey{}, fs.FileMode(u.umask.Load()))
	if j := u.jobOf(hc); j != nil {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(j.ctx, func() { cancel(context.Cause(j.ctx)) })()
	}
	c := command{name: args[0], args: args[1:], dir: hc.Dir, ignored: u.ignores, waiting: func() (killed, bool) { return u.waiting(hc) }, descriptors: u.descriptors(hc), streams: streams{hc.Stdin, hc.Stdout, hc.Stderr}}
	x, err := u.p.e.resolve(u.p.ns, args[0], hc.Dir, hc.Env.Get("PATH").String())
	c.env = exported(hc.Env, hc.Dir)
	if err != nil {
		return u.p.unresolved(fmt.Errorf("%s: %w", u.name, err), c)
	}
	return u.p.run(ctx, x, c, false).Code
}
