package mutant

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/slipway-run/slipway/sdk"
)

// stdinMutants are broken in what processes read.
func stdinMutants() []Mutant {
	return []Mutant{
		{
			ID: "stdin-cut", Doc: "stdin ends after a million bytes", Rule: 7,
			Killers: []string{"I08-stdin-eof"},
			breaks:  stdinChanged(func(r io.Reader, _ bool) io.Reader { return io.LimitReader(r, 1_000_000) }),
		},
		{
			ID: "stdin-seven-bits", Doc: "bytes of stdin lose their highest bit", Rule: 7,
			Killers: []string{"I06-big-stdin"}, breaks: stdinChanged(func(r io.Reader, _ bool) io.Reader { return &masker{r: r} }),
		},
		{
			ID: "stdin-for-all", Doc: "a process without stdin gets that of whoever follows", Rule: 7,
			Killers: []string{"I09-stdin-none"}, breaks: stdinForAll,
		},
		{
			ID: "stdin-repeated", Doc: "a stdin that is resumed repeats a byte", Rule: 7,
			Killers: []string{"I10-stdin-error", "I20-stdin-resume"},
			breaks:  stdinChanged(func(r io.Reader, again bool) io.Reader { return &repeater{r: r, armed: again} }),
		},
		{
			ID: "stdin-error-is-end", Doc: "a stdin that fails is taken for one that has ended", Rule: 7, Near: true,
			Killers: []string{"I10-stdin-error"},
			breaks:  stdinChanged(func(r io.Reader, _ bool) io.Reader { return &ender{r: r} }),
		},
		{
			ID: "stdin-gathered", Doc: "stdin is passed on in pieces of 4 KiB, or at its end", Rule: 7, Hangs: true,
			Killers: []string{"I23-stdin-times"}, breaks: stdinChanged(func(r io.Reader, _ bool) io.Reader { return &gatherer{r: r} }),
		},
		{
			ID: "end-eats-data", Doc: "bytes of stdin that come together with its end are lost", Rule: 7, Near: true,
			Killers: []string{"I27-stdin-tiny"}, breaks: stdinChanged(func(r io.Reader, _ bool) io.Reader { return &eater{r: r} }),
		},
		{
			ID: "stdin-read-ahead", Doc: "eight MiB of stdin are read before a process takes the first byte", Rule: 7, Near: true,
			Killers: []string{"I28-stdin-ahead"}, breaks: stdinChanged(func(r io.Reader, _ bool) io.Reader { return &hoarder{r: r} }),
		},
		{
			ID: "no-stdin-is-end", Doc: "a follower without stdin ends that of the process", Rule: 7,
			Killers: []string{"I30-stdin-waits"}, breaks: follower(noStdinIsEnd),
		},
		{
			ID: "late-stdin-fails", Doc: "stdin for a process that has ended fails its follower", Rule: 7,
			Killers: []string{"I31-stdin-afterwards"}, breaks: follower(lateStdinFails),
		},
		{
			ID: "generation-constant", Doc: "every follower with stdin has the same generation", Rule: 7,
			Killers: []string{"I21-stdin-generation", "A18-opened"}, breaks: follower(generationConstant),
		},
		{
			ID: "unread-stdin-fails", Doc: "an end before stdin was read is a failure", Rule: 6,
			Killers: []string{"I22-stdin-unread"}, breaks: follower(unreadStdinFails),
		},
	}
}

// stdinChanged puts something between a follower's stdin and the process. again tells whether the process had such a follower before.
func stdinChanged(change func(r io.Reader, again bool) io.Reader) func(sdk.Worker) sdk.Worker {
	return follower(func(w sdk.Worker) followFunc {
		var mu sync.Mutex
		before := make(map[sdk.ProcessID]bool)
		return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
			if f.Stdin == nil {
				return w.FollowProcess(ctx, id, p, from, f)
			}
			mu.Lock()
			again := before[p]
			before[p] = true
			mu.Unlock()
			own := f
			own.Stdin = change(f.Stdin, again)
			return w.FollowProcess(ctx, id, p, from, own)
		}
	})
}

// repeater gives the first byte twice.
type repeater struct {
	r     io.Reader
	armed bool
}

func (r *repeater) Read(p []byte) (int, error) {
	if len(p) < 2 || !r.armed {
		return r.r.Read(p)
	}
	n, err := r.r.Read(p[1:])
	if n == 0 {
		return 0, err
	}
	r.armed = false
	p[0] = p[1]
	return n + 1, err
}

// masker keeps seven bits.
type masker struct{ r io.Reader }

func (m *masker) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	for i := range p[:n] {
		p[i] &= 0x7f
	}
	return n, err
}

// ender ends where its reader fails.
type ender struct{ r io.Reader }

func (e *ender) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

func stdinForAll(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w,
		startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
			spec.Stdin = true
			return w.StartProcess(ctx, id, spec)
		},
		followProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
			if f.Stdin == nil {
				f.Stdin = strings.NewReader("")
			}
			return w.FollowProcess(ctx, id, p, from, f)
		},
	}
}

func generationConstant(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		own := f
		own.Opened = func(o sdk.Opened) error {
			o.StdinGeneration = min(o.StdinGeneration, 1)
			return f.Opened(o)
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}

func unreadStdinFails(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		if f.Stdin == nil {
			return w.FollowProcess(ctx, id, p, from, f)
		}
		in := &watchedReader{r: f.Stdin}
		own := f
		own.Stdin = in
		own.Exit = func(e sdk.Exit) error {
			if !in.ended.Load() {
				return sdk.NewInternal(nil, "process %q: broken pipe", p)
			}
			return f.Exit(e)
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}

// watchedReader notes its end.
type watchedReader struct {
	r     io.Reader
	ended atomic.Bool
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err == io.EOF {
		r.ended.Store(true)
	}
	return n, err
}

// gatherer gives pieces of 4 KiB, and at the end what is left.
type gatherer struct {
	r   io.Reader
	got []byte
	err error
}

func (g *gatherer) Read(p []byte) (int, error) {
	if len(g.got) == 0 && g.err == nil {
		buf := make([]byte, 4<<10)
		n, err := io.ReadFull(g.r, buf)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		g.got, g.err = buf[:n], err
	}
	if len(g.got) == 0 {
		return 0, g.err
	}
	n := copy(p, g.got)
	g.got = g.got[n:]
	return n, nil
}

// eater forgets what comes with the end.
type eater struct{ r io.Reader }

func (e *eater) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil {
		n = 0
	}
	return n, err
}

// hoarder reads far ahead.
type hoarder struct {
	r     io.Reader
	ahead io.Reader
}

func (h *hoarder) Read(p []byte) (int, error) {
	if h.ahead == nil {
		buf := make([]byte, 8<<20)
		n, err := io.ReadFull(h.r, buf)
		h.ahead = io.MultiReader(bytes.NewReader(buf[:n]), h.r)
		if n == 0 {
			return 0, err
		}
	}
	return h.ahead.Read(p)
}

func noStdinIsEnd(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		if f.Stdin == nil {
			f.Stdin = strings.NewReader("")
		}
		return w.FollowProcess(ctx, id, p, from, f)
	}
}

func lateStdinFails(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		own := f
		own.Opened = func(o sdk.Opened) error {
			if f.Stdin != nil && o.State == sdk.ProcessExited {
				return sdk.NewFailedPrecondition(sdk.ReasonDead, sdk.KindProcess, string(p), "process %q reads no stdin any more", p)
			}
			return f.Opened(o)
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}
