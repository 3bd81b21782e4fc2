package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/slipway-run/slipway/plugins/memory/internal/tools"
)

// A descriptor from 3 on is a variable of the shell, so that subshells have copies of their own and commands put back what they changed for
// themselves: _SLIPWAY_FD_3 has the keys of what the descriptor was, the newest first. What is behind a key the process knows.

const (
	descriptorVariable = "_SLIPWAY_FD_"
	subVariable        = "_SLIPWAY_SUB"
	outVariable        = "_SLIPWAY_OUT"
	pipeVariable       = "_SLIPWAY_PIPE"
	quietVariable      = "_SLIPWAY_QUIET"

	closed         = "-"  // the key of a descriptor that is closed
	firstKey       = 1000 // keys are no descriptors of a script
	maxDescriptors = 1024 // of one process, open at once
)

// handle is what a descriptor is of. r or w is nil where it cannot be read or written.
type handle struct {
	r     io.Reader
	w     io.Writer
	close func()     // nil: it is somebody else's
	ends  *[2]uint32 // of a process substitution's pipe: how often each was opened
}

// handles are the open descriptors of a process, by key.
type handles struct {
	mu   sync.Mutex
	open map[string]handle
	next int
}

func (h *handles) add(o handle) (key string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) >= maxDescriptors {
		return "", syscall.EMFILE
	}
	if h.open == nil {
		h.open = make(map[string]handle)
	}
	key = strconv.Itoa(firstKey + h.next)
	h.next++
	h.open[key] = o
	return key, nil
}

func (h *handles) get(key string) (handle, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o, ok := h.open[key]
	return o, ok
}

func (h *handles) drop(key string) {
	h.mu.Lock()
	o, ok := h.open[key]
	delete(h.open, key)
	h.mu.Unlock()
	if ok && o.close != nil {
		o.close()
	}
}

func (h *handles) dropAll() {
	h.mu.Lock()
	open := h.open
	h.open = nil
	h.mu.Unlock()
	for _, o := range open {
		if o.close != nil {
			o.close()
		}
	}
}

var errDescriptor = syscall.EBADF

// descriptor finds what /dev/fd/name is for a command, name being a descriptor of the shell or a key.
func (u *unit) descriptor(hc interp.HandlerContext, name string) (handle, error) {
	keys := strings.Fields(hc.Env.Get(descriptorVariable + name).String())
	switch {
	case len(keys) > 0 && keys[0] == closed:
		return handle{}, errDescriptor
	case len(keys) > 0:
		name = keys[0]
	case len(name) < 4 && u.outer != nil:
		return u.outer(name)
	}
	o, ok := u.p.handles.get(name)
	if !ok {
		return handle{}, errDescriptor
	}
	return o, nil
}

// descriptors is descriptor for what the shell starts.
func (u *unit) descriptors(hc interp.HandlerContext) func(string) (handle, error) {
	return func(name string) (handle, error) { return u.descriptor(hc, name) }
}

// opened is one end of what a descriptor is of, for one command. Those of a pipe are that command's own, to close.
func (p *process) opened(o handle, writes bool) (io.ReadWriteCloser, error) {
	switch {
	case o.ends != nil:
		return p.handles.end(o, writes)
	case writes && o.w != nil:
		return output{o.w}, nil
	case !writes && o.r != nil:
		return input{o.r}, nil
	}
	return nil, errDescriptor
}

// end opens one end of a pipe, which can be had once.
func (h *handles) end(o handle, writes bool) (io.ReadWriteCloser, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, f := 0, o.r
	if writes {
		i, f = 1, io.Reader(o.w.(*os.File))
	}
	if o.ends[i]++; o.ends[i] > 1 {
		return nil, errDescriptor
	}
	if o.ends[1-i] > 0 { // nobody else will ask
		for key, other := range h.open {
			if other.ends == o.ends {
				delete(h.open, key)
			}
		}
	}
	return f.(*os.File), nil
}

// openDescriptor opens /dev/fd/name for a redirection.
func (u *unit) openDescriptor(hc interp.HandlerContext, name, path string, reads bool) (io.ReadWriteCloser, error) {
	o, err := u.descriptor(hc, name)
	if err == nil {
		var f io.ReadWriteCloser
		if f, err = u.p.opened(o, !reads); err == nil {
			if in, ok := f.(input); ok {
				return u.p.relayed(in.Reader)
			}
			return f, nil
		}
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: err}
}

// toolDescriptor opens /dev/fd/name for a tool.
func (p *process) toolDescriptor(find func(string) (handle, error)) func(string, bool) (io.ReadWriteCloser, error) {
	if find == nil {
		return nil
	}
	return func(name string, writes bool) (io.ReadWriteCloser, error) {
		o, err := find(name)
		if err != nil {
			return nil, err
		}
		return p.opened(o, writes)
	}
}

// input is a reader as a file.
type input struct{ io.Reader }

func (input) Write([]byte) (int, error) { return 0, syscall.EBADF }
func (input) Close() error              { return nil }

// setDescriptor is fd [-x] NUMBER OPERATOR WORD: -x says that it stays.
func (u *unit) setDescriptor(ctx context.Context, hc interp.HandlerContext, args []string) error {
	stays := len(args) > 0 && args[0] == "-x"
	if stays {
		args = args[1:]
	}
	if len(args) != 3 {
		return refuse(hc, usage, "a redirection needs one word")
	}
	number, op, word := args[0], args[1], args[2]
	named, isName := strings.CutPrefix(number, "{")
	named = strings.TrimSuffix(named, "}")
	fail := func(err error) error {
		fmt.Fprintf(hc.Stderr, "%s: %s%s%s: %v\n", u.name, number, op, word, err)
		return status(1)
	}
	if isName && !syntax.ValidName(named) {
		return fail(errDescriptor)
	}
	if isName && word == closed {
		number = hc.Env.Get(named).String()
	}
	if n, err := strconv.Atoi(number); !isName && (err != nil || n < 3 || n > 255) || isName && word == closed && err != nil {
		return fail(errDescriptor)
	}
	key := closed
	if word != closed || op != ">&" && op != "<&" {
		o, err := u.openAs(ctx, hc, op, word)
		if err == nil {
			key, err = u.p.handles.add(o)
		}
		if err != nil {
			if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
				err = pe.Err
			}
			return fail(err)
		}
		if isName { // the first that is free, as bash's from 10 on
			for n := 10; ; n++ {
				number = strconv.Itoa(n)
				if v := hc.Env.Get(descriptorVariable + number); !v.IsSet() || strings.HasPrefix(v.String(), closed) {
					break
				}
			}
			if err := assign(ctx, hc, named, number); err != nil {
				return err
			}
		}
	}
	before := strings.Fields(hc.Env.Get(descriptorVariable + number).String())
	if stays && len(before) > 0 {
		if u.isMain(hc) { // a subshell's are still its parent's
			u.p.handles.drop(before[0])
		}
		before = before[1:]
	}
	return assign(ctx, hc, descriptorVariable+number, strings.Join(append([]string{key}, before...), " "))
}

// openAs opens what a redirection of a descriptor from 3 on means.
func (u *unit) openAs(ctx context.Context, hc interp.HandlerContext, op, word string) (handle, error) {
	switch op {
	case ">&", "<&":
		switch word {
		case "0":
			if in, ok := hc.Stdin.(*os.File); !ok || in == nil {
				return handle{r: strings.NewReader("")}, nil
			}
			return handle{r: hc.Stdin}, nil
		case "1":
			return handle{w: hc.Stdout}, nil
		case "2":
			return handle{w: hc.Stderr}, nil
		}
		o, err := u.descriptor(hc, word)
		o.close = nil
		return o, err
	case "<<<":
		return handle{r: strings.NewReader(word + "\n")}, nil
	case "<":
		if name, ok := tools.Descriptor(hc.Dir, word); ok {
			o, err := u.descriptor(hc, name)
			if err != nil || o.ends == nil {
				o.close = nil
				return o, err
			}
			f, err := u.p.opened(o, false)
			if err != nil {
				return handle{}, err
			}
			return handle{r: f, close: func() { f.Close() }}, nil
		}
		if dev, ok := tools.Device(hc.Dir, word); ok {
			if dev == "stdin" {
				return u.openAs(ctx, hc, "<&", "0")
			}
			return handle{r: tools.DeviceReader(dev)}, nil
		}
		f, err := u.p.ns.Open(hc.Dir, word, os.O_RDONLY, 0)
		if err != nil {
			return handle{}, err
		}
		return handle{r: f, close: func() { f.Close() }}, nil
	case ">", ">|", ">>":
		flag := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		if op == ">>" {
			flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
		}
		f, err := u.open(ctx, word, flag, 0o666)
		if err != nil {
			return handle{}, err
		}
		return handle{w: f, close: func() { f.Close() }}, nil
	}
	return handle{}, fmt.Errorf("%s is not supported", op)
}

// unsetDescriptors is unfd NUMBER...: a command is over, and its descriptors are again what they were. Its status stays.
func (u *unit) unsetDescriptors(ctx context.Context, hc interp.HandlerContext, args []string) error {
	code := hc.LastExitStatus
	for _, number := range args {
		if n, err := strconv.Atoi(number); err != nil || n < 3 {
			return status(usage)
		}
		keys := strings.Fields(hc.Env.Get(descriptorVariable + number).String())
		if len(keys) == 0 {
			continue
		}
		u.p.handles.drop(keys[0])
		set := []string{"unset", descriptorVariable + number}
		if len(keys) > 1 {
			set = []string{"eval", descriptorVariable + number + "=" + quote(strings.Join(keys[1:], " "))}
		}
		if err := hc.Builtin(ctx, set); err != nil {
			return err
		}
	}
	return status(code)
}
