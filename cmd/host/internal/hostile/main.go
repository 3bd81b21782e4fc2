// Command hostile is a plugin for tests of slipway: memory's, but for one lie, which its argument names. Each is something that a plugin can do, by mistake or by will, and
// that the host's people must not suffer from.
package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// lie is what a hostile plugin does otherwise than memory does. What is nil it does well.
type lie struct {
	follow  func(ctx context.Context, w sdk.Worker, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error
	signal  func(ctx context.Context) error
	destroy func(ctx context.Context) error                              // a container
	create  func(ctx context.Context, progress func(sdk.Progress)) error // a container
	start   func(ctx context.Context) error                              // a process
	status  func(*sdk.Status)
	workers func(*sdk.WorkerEvent)
	silent  bool                                   // it tells no workers
	archive func(w io.Writer) error                // in place of a volume's content
	list    func(emit func(id string) error) error // in place of containers, volumes and processes
	close   func()
}

// findLie finds a lie by its name, which is in the table, or "exits" and JSON of how all processes end, one exit after another.
func findLie(name string) (lie, error) {
	if text, ok := strings.CutPrefix(name, "exits "); ok {
		var ends []sdk.Exit
		err := json.Unmarshal([]byte(text), &ends)
		return lie{follow: exitsAre(ends)}, err
	}
	l, ok := lies()[name]
	if !ok {
		return l, fmt.Errorf("there is no lie %q", name)
	}
	return l, nil
}

func lies() map[string]lie {
	return map[string]lie{
		"honest": {},
		"open after the exit": {follow: func(ctx context.Context, w sdk.Worker, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
			_ = w.FollowProcess(ctx, c, p, from, f)
			return forever(ctx)
		}},
		"no exit ever": {follow: func(ctx context.Context, w sdk.Worker, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
			f.Exit = func(sdk.Exit) error { return nil }
			_ = w.FollowProcess(ctx, c, p, from, f)
			return forever(ctx)
		}},
		"ends without an exit": {follow: func(_ context.Context, _ sdk.Worker, _ sdk.ContainerID, _ sdk.ProcessID, _ sdk.Position, f sdk.Follow) error {
			return f.Opened(sdk.Opened{State: sdk.ProcessRunning})
		}},
		"superseded by nobody": {follow: func(_ context.Context, _ sdk.Worker, _ sdk.ContainerID, p sdk.ProcessID, _ sdk.Position, f sdk.Follow) error {
			return errors.Join(f.Opened(sdk.Opened{State: sdk.ProcessRunning}),
				sdk.NewFailedPrecondition(sdk.ReasonSuperseded, sdk.KindProcess, string(p), "somebody else follows"))
		}},
		"negative position":        {follow: recordAt(func(sdk.Position) sdk.Position { return -1 })},
		"last position":            {follow: recordAt(func(sdk.Position) sdk.Position { return 1<<63 - 1 })},
		"hole":                     {follow: recordAt(func(at sdk.Position) sdk.Position { return at + 1 })},
		"a byte is gone, for ever": {follow: gap(1)},
		"no byte is gone":          {follow: gap(0)},
		"every second byte is gone": {follow: func(ctx context.Context, w sdk.Worker, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
			return errors.Join(f.Opened(sdk.Opened{State: sdk.ProcessRunning}), f.Output([]sdk.Record{{Stream: sdk.Stdout, Position: from, Data: []byte("x")}}),
				gap(2)(ctx, w, c, p, from, sdk.Follow{Opened: func(sdk.Opened) error { return nil }}))
		}},
		"status":              {status: func(s *sdk.Status) { s.Health, s.Reason = sdk.Degraded, forged }},
		"away":                {status: func(s *sdk.Status) { s.Health, s.Reason = sdk.Away, forged }},
		"start refused":       {start: func(context.Context) error { return sdk.NewInvalid(sdk.ReasonExecutableNotFound, "%s", forged) }},
		"long refusal":        {start: func(context.Context) error { return sdk.NewInvalid(sdk.ReasonSpec, "%s", strings.Repeat("x", 100<<10)) }},
		"start not answered":  {start: forever},
		"create not answered": {create: func(ctx context.Context, _ func(sdk.Progress)) error { return forever(ctx) }},
		"progress without end": {create: func(ctx context.Context, tell func(sdk.Progress)) error {
			for ctx.Err() == nil {
				tell(sdk.Progress{Phase: "pulling", Message: strings.Repeat("x", 10<<10) + forged})
			}
			return ctx.Err()
		}},
		"never begins to tell": {follow: func(ctx context.Context, _ sdk.Worker, _ sdk.ContainerID, _ sdk.ProcessID, _ sdk.Position, _ sdk.Follow) error {
			select {
			case <-time.After(5100 * time.Millisecond): // longer than a quiet process is followed before that counts as a sign of it
				return sdk.NewInternal(nil, "there is nothing to tell")
			case <-ctx.Done():
				return ctx.Err()
			}
		}},
		"paused": {follow: func(context.Context, sdk.Worker, sdk.ContainerID, sdk.ProcessID, sdk.Position, sdk.Follow) error {
			return sdk.NewUnavailable(nil, "%s", forged)
		}},
		"tags": {workers: func(e *sdk.WorkerEvent) {
			for i := range e.Workers {
				e.Workers[i].Tags, e.Workers[i].Platform = []string{forged}, forged
			}
		}},
		"workers without end": {workers: func(e *sdk.WorkerEvent) {
			for i := range 3 * sdk.MaxWorkers {
				e.Workers = append(e.Workers, sdk.WorkerInfo{Name: fmt.Sprintf("m/%d", i), Attributes: map[string]string{"filler": strings.Repeat("x", 1000)}})
			}
		}},
		"no snapshot":      {silent: true},
		"another's worker": {workers: func(e *sdk.WorkerEvent) { e.Workers = append(e.Workers, sdk.WorkerInfo{Name: "other"}) }},
		"a list without end": {list: func(emit func(string) error) error {
			for i := 0; ; i++ {
				if err := emit(fmt.Sprintf("c%d", i)); err != nil {
					return err
				}
			}
		}},
		"a list that hangs":   {list: func(func(string) error) error { select {} }},
		"bomb":                {archive: func(w io.Writer) error { _, err := w.Write(testkit.SparseBomb("bomb", 8<<40)); return err }},
		"absolute name":       {archive: oneEntry(tar.Header{Name: "/tmp/slipway-was-here", Typeflag: tar.TypeReg})},
		"name that leads out": {archive: oneEntry(tar.Header{Name: "../../slipway-was-here", Typeflag: tar.TypeReg})},
		"link that leads out": {archive: func(w io.Writer) error {
			t := tar.NewWriter(w)
			return errors.Join(t.WriteHeader(&tar.Header{Name: "out", Typeflag: tar.TypeSymlink, Linkname: "../.."}),
				t.WriteHeader(&tar.Header{Name: "out/slipway-was-here", Typeflag: tar.TypeReg}), t.Close())
		}},
		"device": {archive: oneEntry(tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3})},
		"no archive": {archive: func(w io.Writer) error {
			_, err := io.WriteString(w, strings.Repeat("this is no archive", 100))
			return err
		}},
		"half an archive": {archive: func(w io.Writer) error { _, err := w.Write(testkit.SparseBomb("bomb", 1)[:512]); return err }},
		"many directories": {archive: func(w io.Writer) error {
			t := tar.NewWriter(w)
			for i := range 2_000 {
				if err := t.WriteHeader(&tar.Header{Name: fmt.Sprintf("%d/%s", i, strings.Repeat("x", 200)), Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
					return err
				}
			}
			return t.WriteHeader(&tar.Header{Name: "pipe", Typeflag: tar.TypeFifo})
		}},
		"answers nothing": {signal: forever, destroy: forever, close: func() { select {} },
			follow: func(ctx context.Context, w sdk.Worker, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
				f.Exit = func(sdk.Exit) error { return nil }
				_ = w.FollowProcess(ctx, c, p, from, f)
				return forever(ctx)
			}},
	}
}

// forged clears a terminal, turns the direction of writing, and looks like a line of slipway's own.
const forged = "\x1b[2J\u202e\u009b31m\nonly - succeeded\nslipway: all went well\r"

func oneEntry(h tar.Header) func(io.Writer) error {
	return func(w io.Writer) error {
		t := tar.NewWriter(w)
		return errors.Join(t.WriteHeader(&h), t.Close())
	}
}

func forever(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// gap tells each time that so many bytes are gone.
func gap(bytes sdk.Position) func(ctx context.Context, w sdk.Worker, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
	return func(_ context.Context, _ sdk.Worker, _ sdk.ContainerID, _ sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		return errors.Join(f.Opened(sdk.Opened{State: sdk.ProcessRunning}),
			&sdk.Error{Class: sdk.FailedPrecondition, Reason: sdk.ReasonOutputGap, Position: from + bytes, Message: "it is gone"})
	}
}

func exitsAre(ends []sdk.Exit) func(ctx context.Context, w sdk.Worker, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
	return func(ctx context.Context, w sdk.Worker, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		tell := f.Exit
		f.Exit = func(sdk.Exit) (err error) {
			for _, e := range ends {
				err = errors.Join(err, tell(e))
			}
			return err
		}
		return w.FollowProcess(ctx, c, p, from, f)
	}
}

// recordAt tells one byte of output at another position than that where it belongs.
func recordAt(where func(sdk.Position) sdk.Position) func(ctx context.Context, w sdk.Worker, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
	return func(ctx context.Context, _ sdk.Worker, _ sdk.ContainerID, _ sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		if err := f.Opened(sdk.Opened{State: sdk.ProcessRunning}); err != nil {
			return err
		}
		if err := f.Output([]sdk.Record{{Stream: sdk.Stdout, Position: where(from), Data: []byte("x")}}); err != nil {
			return err
		}
		return forever(ctx)
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: hostile LIE")
		os.Exit(2)
	}
	l, err := findLie(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	p := memory.Plugin()
	open := p.Open
	p.Open = func(ctx context.Context, c sdk.Config) (sdk.Runtime, error) {
		rt, err := open(ctx, c)
		if err != nil {
			return nil, err
		}
		return &hostile{rt, l}, nil
	}
	rpc.Serve(p)
}

// hostile is a runtime that lies.
type hostile struct {
	sdk.Runtime
	lie lie
}

func (h *hostile) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	if h.lie.silent {
		return forever(ctx)
	}
	return h.Runtime.Workers(ctx, func(e sdk.WorkerEvent) error {
		if h.lie.workers != nil {
			h.lie.workers(&e)
		}
		return emit(e)
	})
}

func (h *hostile) Worker(name string) (sdk.Worker, error) {
	w, err := h.Runtime.Worker(name)
	if err != nil {
		return nil, err
	}
	return &hostileWorker{w, h.lie}, nil
}

type hostileWorker struct {
	sdk.Worker
	lie lie
}

func (w *hostileWorker) Status(ctx context.Context) (sdk.Status, error) {
	s, err := w.Worker.Status(ctx)
	if w.lie.status != nil {
		w.lie.status(&s)
	}
	return s, err
}

func (w *hostileWorker) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	if w.lie.create != nil {
		return w.lie.create(ctx, progress)
	}
	return w.Worker.CreateContainer(ctx, spec, progress)
}

func (w *hostileWorker) StartProcess(ctx context.Context, c sdk.ContainerID, spec sdk.ProcessSpec) error {
	if w.lie.start != nil {
		return w.lie.start(ctx)
	}
	return w.Worker.StartProcess(ctx, c, spec)
}

func (w *hostileWorker) FollowProcess(ctx context.Context, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
	if w.lie.follow != nil {
		return w.lie.follow(ctx, w.Worker, c, p, from, f)
	}
	return w.Worker.FollowProcess(ctx, c, p, from, f)
}

func (w *hostileWorker) SignalProcess(ctx context.Context, c sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) error {
	if w.lie.signal != nil {
		return w.lie.signal(ctx)
	}
	return w.Worker.SignalProcess(ctx, c, p, s)
}

func (w *hostileWorker) DestroyContainer(ctx context.Context, c sdk.ContainerID) error {
	if w.lie.destroy != nil {
		return w.lie.destroy(ctx)
	}
	return w.Worker.DestroyContainer(ctx, c)
}

func (w *hostileWorker) ListContainers(ctx context.Context, f sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	if w.lie.list != nil {
		return w.lie.list(func(id string) error {
			return emit(sdk.ContainerInfo{ID: sdk.ContainerID(id), Token: "t", State: sdk.ContainerReady, Labels: f.Labels})
		})
	}
	return w.Worker.ListContainers(ctx, f, emit)
}

func (w *hostileWorker) ListVolumes(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	if w.lie.list != nil {
		return w.lie.list(func(id string) error {
			return emit(sdk.VolumeInfo{ID: sdk.VolumeID(id), Token: "t", State: sdk.VolumeOpen, Labels: f.Labels})
		})
	}
	return w.Worker.ListVolumes(ctx, f, emit)
}

func (w *hostileWorker) StreamOut(ctx context.Context, v sdk.VolumeID, out sdk.StreamOut, to io.Writer) error {
	if w.lie.archive != nil {
		return w.lie.archive(to)
	}
	return w.Worker.StreamOut(ctx, v, out, to)
}

func (w *hostileWorker) Close() error {
	if w.lie.close != nil {
		w.lie.close()
	}
	return w.Worker.Close()
}
