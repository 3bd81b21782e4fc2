package mutant

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// restartMutants keep something of what was made in their own process, and do not have it after a restart.
func restartMutants() []Mutant {
	return []Mutant{
		{
			ID: "old-containers-kept", Doc: "containers of before a restart are not destroyed, whatever is said", Rule: 1,
			Killers: []string{"R04-kill-destroy"}, breaks: living(func(b *broken, l *life) {
				b.destroyContainer = func(ctx context.Context, id sdk.ContainerID) error {
					if l.before(string(id)) {
						return nil
					}
					return b.Worker.DestroyContainer(ctx, id)
				}
			}),
		},
		{
			ID: "old-journals-lost", Doc: "processes of before a restart are abandoned", Rule: 4,
			Killers: []string{"R05-kill-often", "R06-kill-ending"}, breaks: oldFollowers(func(w sdk.Worker) followFunc {
				return func(_ context.Context, _ sdk.ContainerID, p sdk.ProcessID, _ sdk.Position, _ sdk.Follow) error {
					return sdk.NewFailedPrecondition(sdk.ReasonAbandoned, sdk.KindProcess, string(p), "process %q is not known any more", p)
				}
			}),
		},
		{
			ID: "cut-stream-is-whole", Doc: "a stream whose plugin is gone counts as done", Rule: 9, Near: true,
			Killers: []string{"R07-kill-stream"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
					err := w.StreamIn(ctx, id, in, r)
					if errors.Is(err, sdk.ReasonPluginGone) {
						return nil
					}
					return err
				}}
			},
		},
		{
			ID: "old-exits-lost", Doc: "exits of before a restart are said to have been 0", Rule: 6,
			Killers: []string{"R09-kill-exit"}, breaks: oldFollowers(func(w sdk.Worker) followFunc {
				return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
					own := f
					own.Exit = func(e sdk.Exit) error {
						e.Code, e.Signal, e.Reason = 0, "", sdk.ExitExited
						return f.Exit(e)
					}
					return w.FollowProcess(ctx, id, p, from, own)
				}
			}),
		},
		{
			ID: "old-seals-lost", Doc: "a stream into what was sealed before a restart counts as done", Rule: 9,
			Killers: []string{"R10-kill-sealed"}, breaks: living(func(b *broken, l *life) {
				b.streamIn = func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
					err := b.Worker.StreamIn(ctx, id, in, r)
					if l.before(string(id)) && errors.Is(err, sdk.ReasonSealed) {
						return nil
					}
					return err
				}
			}),
		},
		{
			ID: "old-positions-drift", Doc: "positions in journals of before a restart are one too small", Rule: 5,
			Killers: []string{"R11-kill-acks"}, breaks: oldFollowers(fromIgnored),
		},
		{
			ID: "old-stdin-repeated", Doc: "stdin of a process of before a restart repeats a byte", Rule: 7,
			Killers: []string{"R12-kill-stdin"}, breaks: oldFollowers(func(w sdk.Worker) followFunc {
				return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
					if f.Stdin != nil {
						f.Stdin = &repeater{r: f.Stdin, armed: true}
					}
					return w.FollowProcess(ctx, id, p, from, f)
				}
			}),
		},
		{
			ID: "old-processes-deaf", Doc: "signals for processes of before a restart find nobody", Rule: 8,
			Killers: []string{"R14-kill-signal"}, breaks: living(func(b *broken, l *life) {
				b.signalProcess = func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) error {
					if l.before(string(p)) {
						return sdk.NewNotFound(sdk.KindProcess, string(p))
					}
					return b.Worker.SignalProcess(ctx, id, p, s)
				}
			}),
		},
		{
			ID: "old-parents-lost", Doc: "clones of before a restart do not tell their parents", Rule: 9,
			Killers: []string{"R15-kill-clones"}, breaks: living(func(b *broken, l *life) {
				b.listVolumes = func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
					return b.Worker.ListVolumes(ctx, f, func(v sdk.VolumeInfo) error {
						if l.before(string(v.ID)) {
							v.Parent = ""
						}
						return emit(v)
					})
				}
			}),
		},
		{
			ID: "old-tokens-lost", Doc: "after a restart another token's process is taken for one's own", Rule: 3,
			Killers: []string{"R17-kill-tokens"}, breaks: oldTokensLost,
		},
		{
			ID: "first-creation-fails", Doc: "after a restart the first creation of a volume fails", Rule: 1,
			Killers: []string{"R18-kill-create"}, breaks: firstCreationFails,
		},
	}
}

// life knows what was made since the plugin's start.
type life struct {
	mu   sync.Mutex
	made map[string]bool
}

func (l *life) make(id string, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made[id] = l.made[id] || err == nil
	return err
}

// before tells whether something is not of this life.
func (l *life) before(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.made[id]
}

// living notes what is made, and breaks a worker further.
func living(further func(*broken, *life)) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		l := &life{made: make(map[string]bool)}
		b := &broken{Worker: w,
			createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
				return l.make(string(spec.ID), w.CreateVolume(ctx, spec))
			},
			createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
				return l.make(string(spec.ID), w.CreateContainer(ctx, spec, progress))
			},
			startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
				return l.make(string(spec.ID), w.StartProcess(ctx, id, spec))
			},
		}
		further(b, l)
		return b
	}
}

// oldFollowers breaks FollowProcess for processes of before a restart.
func oldFollowers(with func(sdk.Worker) followFunc) func(sdk.Worker) sdk.Worker {
	return living(func(b *broken, l *life) {
		old := with(b.Worker)
		b.followProcess = func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
			if l.before(string(p)) {
				return old(ctx, id, p, from, f)
			}
			return b.Worker.FollowProcess(ctx, id, p, from, f)
		}
	})
}

func oldTokensLost(w sdk.Worker) sdk.Worker {
	started := &life{made: make(map[string]bool)} // by this plugin, and not by one before
	return &broken{Worker: w, startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
		infos, err := w.ListProcesses(ctx, id)
		if err != nil {
			return err
		}
		for _, i := range infos {
			if i.ID == spec.ID && started.before(string(spec.ID)) {
				return nil
			}
		}
		return started.make(string(spec.ID), w.StartProcess(ctx, id, spec))
	}}
}

func firstCreationFails(w sdk.Worker) sdk.Worker {
	var once sync.Once
	return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
		var failure error
		once.Do(func() {
			there := 0
			failure = w.ListVolumes(ctx, sdk.Filter{}, func(sdk.VolumeInfo) error { there++; return nil })
			if failure == nil && there > 0 {
				failure = sdk.NewInternal(nil, "the worker is being repaired")
			}
		})
		if failure != nil {
			return failure
		}
		return w.CreateVolume(ctx, spec)
	}}
}
