package mutant

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// recoveryMutants keep in their own process what a host relies on.
func recoveryMutants() []Mutant {
	return []Mutant{
		{
			ID: "forgets-at-restart", Doc: "a worker lists what it made since its plugin's start, under the same incarnation", Rule: 4,
			Killers: []string{"R01-kill-idle"}, breaks: forgetsAtRestart,
		},
		{
			ID: "zero-after-crash", Doc: "after its plugin was killed, a process that it had started has exited with 0", Rule: 3,
			Killers: []string{"R02-kill-running"}, breaks: zeroAfterCrash,
		},
		{
			ID: "exit-guessed", Doc: "a follower whose plugin is gone hears of an exit", Rule: 3, Near: true,
			Killers: []string{"R03-kill-under-call"}, breaks: follower(exitGuessed),
		},
		{
			ID: "incarnation-constant", Doc: "a volatile worker has the same incarnations in each process of its plugin", Rule: 4,
			Killers: []string{"Y10-volatile"}, breaks: statusChanged(func(s *sdk.Status) { s.ContainerIncarnation, s.VolumeIncarnation = "containers", "volumes" }),
		},
		{
			ID: "variables-logged", Doc: "what a process is started with is logged", Rule: 13,
			Killers: []string{"P38-env-kept-nowhere"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
					fmt.Fprintf(os.Stderr, "starting %+v\n", spec)
					return w.StartProcess(ctx, id, spec)
				}}
			},
		},
		{
			ID: "away-is-an-error", Doc: "the status of a worker whose server is away is an error", Rule: 4,
			Killers: []string{"W29-server-away"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, status: func(ctx context.Context) (sdk.Status, error) {
					s, err := w.Status(ctx)
					if err == nil && s.Health == sdk.Away {
						return sdk.Status{}, sdk.NewUnavailable(nil, "%s", s.Reason)
					}
					return s, err
				}}
			},
		},
		{
			ID: "away-without-reason", Doc: "the status of a worker whose server is away gives no reason", Rule: 4,
			Killers: []string{"W29-server-away"}, breaks: statusChanged(func(s *sdk.Status) { s.Reason = "" }),
		},
	}
}

func forgetsAtRestart(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	made := make(map[sdk.VolumeID]bool)
	return &broken{Worker: w,
		createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
			err := w.CreateVolume(ctx, spec)
			mu.Lock()
			defer mu.Unlock()
			made[spec.ID] = made[spec.ID] || err == nil
			return err
		},
		listVolumes: func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
			return w.ListVolumes(ctx, f, func(v sdk.VolumeInfo) error {
				mu.Lock()
				mine := made[v.ID]
				mu.Unlock()
				if !mine {
					return nil
				}
				return emit(v)
			})
		},
	}
}

func zeroAfterCrash(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	started := make(map[sdk.ProcessID]bool)
	good := func(p sdk.ProcessID) bool {
		mu.Lock()
		defer mu.Unlock()
		return started[p]
	}
	ended := sdk.Exit{Reason: sdk.ExitExited, StartedAt: time.Unix(0, 0), EndedAt: time.Unix(0, 0)}
	return &broken{Worker: w,
		startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
			infos, err := w.ListProcesses(ctx, id)
			if err != nil {
				return err
			}
			for _, i := range infos {
				if i.ID == spec.ID && !good(spec.ID) {
					return nil // of a life before
				}
			}
			err = w.StartProcess(ctx, id, spec)
			mu.Lock()
			defer mu.Unlock()
			started[spec.ID] = true
			return err
		},
		listProcesses: func(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
			infos, err := w.ListProcesses(ctx, id)
			for i := range infos {
				if !good(infos[i].ID) {
					infos[i].State, infos[i].Exit = sdk.ProcessExited, &ended
				}
			}
			return infos, err
		},
	}
}

func exitGuessed(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		err := w.FollowProcess(ctx, id, p, from, f)
		if errors.Is(err, sdk.ReasonPluginGone) {
			return f.Exit(sdk.Exit{Code: 1, Reason: sdk.ExitExited})
		}
		return err
	}
}
