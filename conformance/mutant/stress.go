package mutant

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// stressMutants are broken in what only shows where much goes on.
func stressMutants() []Mutant {
	return []Mutant{
		{
			ID: "output-hoarded", Doc: "all output that was ever delivered is kept in memory", Rule: 5, Alone: true,
			Killers: []string{"G01-huge-output"}, breaks: func(w sdk.Worker) sdk.Worker {
				h := &hoard{}
				return bytesChanged(func(r *sdk.Record) { h.keep(r.Data) })(w)
			},
		},
		{
			ID: "stdin-hoarded", Doc: "all stdin that was ever taken is kept in memory", Rule: 7, Alone: true,
			Killers: []string{"G02-huge-stdin"}, breaks: func(w sdk.Worker) sdk.Worker {
				h := &hoard{}
				return stdinChanged(func(r io.Reader, _ bool) io.Reader { return io.TeeReader(r, h) })(w)
			},
		},
		{
			ID: "archive-read-first", Doc: "an archive is read into memory before it is unpacked", Rule: 9, Alone: true,
			Killers: []string{"G03-huge-archive"}, breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
					archive, err := io.ReadAll(r)
					if err != nil {
						return err
					}
					return w.StreamIn(ctx, id, in, bytes.NewReader(archive))
				}}
			},
		},
		{
			ID: "archive-made-first", Doc: "an archive is made in memory before it is sent", Rule: 9, Alone: true,
			Killers: []string{"G04-huge-tree"}, breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
					var b bytes.Buffer
					if err := w.StreamOut(ctx, id, out, &b); err != nil {
						return err
					}
					_, err := b.WriteTo(dst)
					return err
				}}
			},
		},
		{
			ID: "thirty-two-containers", Doc: "there are no more than 32 containers", Rule: 1,
			Killers: []string{"G05-containers"}, breaks: fewContainers,
		},
		{
			ID: "hundred-exits", Doc: "of the processes that have ended the last hundred are known", Rule: 6,
			Killers: []string{"G06-in-a-row"}, breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, listProcesses: func(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
					infos, err := w.ListProcesses(ctx, id)
					return infos[max(0, len(infos)-100):], err
				}}
			},
		},
		{
			ID: "fifty-followers", Doc: "there are no more than fifty followers at once", Rule: 5,
			Killers: []string{"G07-at-once"}, breaks: follower(func(w sdk.Worker) followFunc {
				places := make(chan struct{}, 50)
				return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
					select {
					case places <- struct{}{}:
					default:
						return sdk.NewUnavailable(nil, "there are too many followers")
					}
					defer func() { <-places }()
					return w.FollowProcess(ctx, id, p, from, f)
				}
			}),
		},
		{
			ID: "files-left-open", Doc: "each creation of a container leaves a file open", Rule: 2, Alone: true, Hangs: true,
			Killers: []string{"Q01-leaks"}, breaks: filesLeftOpen,
		},
		{
			ID: "sixteen-streams", Doc: "there are no more than sixteen streams at once", Rule: 9,
			Killers: []string{"G08-streams-at-once"}, breaks: func(w sdk.Worker) sdk.Worker {
				places := make(chan struct{}, 16)
				return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
					select {
					case places <- struct{}{}:
					default:
						return sdk.NewUnavailable(nil, "there are too many streams")
					}
					defer func() { <-places }()
					return w.StreamIn(ctx, id, in, r)
				}}
			},
		},
	}
}

// hoard forgets nothing.
type hoard struct {
	mu   sync.Mutex
	kept [][]byte
}

func (h *hoard) keep(data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, bytes.Clone(data))
}

func (h *hoard) Write(p []byte) (int, error) {
	h.keep(p)
	return len(p), nil
}

func filesLeftOpen(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	var open []*os.File // nobody closes them, the garbage collector neither
	return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return sdk.NewInternal(err, "opening a file: %v", err)
		}
		mu.Lock()
		open = append(open, f)
		mu.Unlock()
		return w.CreateContainer(ctx, spec, progress)
	}}
}

func fewContainers(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	made := make(map[sdk.ContainerID]bool)
	return &broken{Worker: w,
		createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
			mu.Lock()
			made[spec.ID] = true
			n := len(made)
			mu.Unlock()
			if n > 32 {
				return sdk.NewExhausted(sdk.ReasonMemory, "there are too many containers")
			}
			return w.CreateContainer(ctx, spec, progress)
		},
		destroyContainer: func(ctx context.Context, id sdk.ContainerID) error {
			err := w.DestroyContainer(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				delete(made, id)
			}
			return err
		},
	}
}
