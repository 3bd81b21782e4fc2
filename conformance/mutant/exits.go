package mutant

import (
	"context"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// exitMutants are broken in how an end is told.
func exitMutants() []Mutant {
	return []Mutant{
		{
			ID: "code-cut", Doc: "exit codes lose their highest bit", Rule: 6,
			Killers: []string{"X01-codes"}, breaks: exitChanged(func(e *sdk.Exit) { e.Code &= 0x7f }),
		},
		{
			ID: "killed-is-zero", Doc: "a process that a signal ended has exited with 0", Rule: 6,
			Killers: []string{"S11-signalled", "S12-kill-at-once", "S17-other-signals", "S19-kill-waiting"}, breaks: exitChanged(func(e *sdk.Exit) {
				if e.Signal != "" {
					e.Code, e.Signal, e.Reason = 0, "", sdk.ExitExited
				}
			}),
		},
		{
			ID: "exits-mixed", Doc: "an exit code is kept for a container, not for a process", Rule: 5,
			Killers: []string{"P09-many", "X10-many-exits"}, breaks: follower(exitsMixed),
		},
		{
			ID: "late-exit-guessed", Doc: "whoever asks after the end hears 255", Rule: 6,
			Killers: []string{"A05-tombstone", "X07-instant-exit"}, breaks: follower(lateExitGuessed),
		},
		{
			ID: "tombstone-lost", Doc: "an exit is told once", Rule: 6,
			Killers: []string{"A05-tombstone"}, breaks: follower(tombstoneLost),
		},
		{
			ID: "pipes-awaited", Doc: "the exit waits until nobody holds the output any more", Rule: 6, Hangs: true,
			Killers: []string{"P13-orphan-holds-output", "T08-terminal-left"}, breaks: follower(pipesAwaited),
		},
		{
			ID: "times-when-asked", Doc: "an exit's times are made when somebody asks", Rule: 6,
			Killers: []string{"X09-times"}, breaks: exitChanged(func(e *sdk.Exit) { e.EndedAt = time.Now() }),
		},
		{
			ID: "exit-twice", Doc: "the exit is told twice", Rule: 6,
			Killers: []string{"P01-run-true"}, breaks: follower(exitTwice),
		},
	}
}

// follower breaks FollowProcess alone.
func follower(with func(w sdk.Worker) followFunc) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker { return &broken{Worker: w, followProcess: with(w)} }
}

func exitChanged(change func(*sdk.Exit)) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		return &broken{Worker: w,
			followProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
				own := f
				own.Exit = func(e sdk.Exit) error {
					change(&e)
					return f.Exit(e)
				}
				return w.FollowProcess(ctx, id, p, from, own)
			},
			listProcesses: func(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
				infos, err := w.ListProcesses(ctx, id)
				for i := range infos {
					if infos[i].Exit != nil {
						e := *infos[i].Exit
						change(&e)
						infos[i].Exit = &e
					}
				}
				return infos, err
			},
		}
	}
}

func exitsMixed(w sdk.Worker) followFunc {
	var mu sync.Mutex
	latest := make(map[sdk.ContainerID]int)
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		own := f
		own.Exit = func(e sdk.Exit) error {
			mu.Lock()
			code, ok := latest[id]
			latest[id] = e.Code
			mu.Unlock()
			if ok {
				e.Code = code
			}
			return f.Exit(e)
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}

func lateExitGuessed(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		own := f
		late := false
		own.Opened = func(o sdk.Opened) error {
			late = o.State == sdk.ProcessExited
			return f.Opened(o)
		}
		own.Exit = func(e sdk.Exit) error {
			if late {
				e.Code = 255
			}
			return f.Exit(e)
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}

func tombstoneLost(w sdk.Worker) followFunc {
	var mu sync.Mutex
	told := make(map[sdk.ProcessID]bool)
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		mu.Lock()
		gone := told[p]
		mu.Unlock()
		if gone {
			return sdk.NewNotFound(sdk.KindProcess, string(p))
		}
		err := w.FollowProcess(ctx, id, p, from, f)
		if err == nil {
			mu.Lock()
			told[p] = true
			mu.Unlock()
		}
		return err
	}
}

func pipesAwaited(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		own := f
		own.Exit = func(e sdk.Exit) error {
			if e.OutputCut {
				<-ctx.Done() // of a child that holds it as long as anybody looks
				return ctx.Err()
			}
			return f.Exit(e)
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}

func exitTwice(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		own := f
		own.Exit = func(e sdk.Exit) error {
			if err := f.Exit(e); err != nil {
				return err
			}
			return f.Exit(e)
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}
