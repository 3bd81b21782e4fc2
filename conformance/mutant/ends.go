package mutant

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/slipway-run/slipway/sdk"
)

// endMutants are broken in what they say once a leader or a container has ended, and the rest has not.
func endMutants() []Mutant {
	return []Mutant{
		{
			ID: "starts-when-gone", Doc: "a start in a container that is gone succeeds", Rule: 3,
			Killers: []string{"C38-container-ends"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
					err := w.StartProcess(ctx, id, spec)
					if errors.Is(err, sdk.ReasonDead) || errors.Is(err, sdk.ReasonRecordLost) {
						return nil
					}
					return err
				}}
			},
		},
		{
			ID: "abandoned-is-running", Doc: "a process that ended with its container is listed as running", Rule: 3,
			Killers: []string{"C38-container-ends"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, listProcesses: func(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
					infos, err := w.ListProcesses(ctx, id)
					for i := range infos {
						if infos[i].State == sdk.ProcessAbandoned {
							infos[i].State = sdk.ProcessRunning
						}
					}
					return infos, err
				}}
			},
		},
		{
			ID: "abandoned-is-over", Doc: "a follower of what ended with its container hears that it exited with 0", Rule: 3,
			Killers: []string{"C38-container-ends"}, breaks: follower(abandonedIsOver),
		},
		{
			ID: "signals-end-with-leader", Doc: "a signal to what the leader has left goes nowhere", Rule: 8, Hangs: true,
			Killers: []string{"S22-after-leader"}, breaks: signalsEndWithLeader,
		},
	}
}

func abandonedIsOver(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		err := w.FollowProcess(ctx, id, p, from, f)
		if errors.Is(err, sdk.ReasonAbandoned) {
			return f.Exit(sdk.Exit{Reason: sdk.ExitExited})
		}
		return err
	}
}

func signalsEndWithLeader(w sdk.Worker) sdk.Worker {
	var looks atomic.Int64
	return &broken{Worker: w, listProcesses: unlisted(w),
		startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
			inShell(`echo $$ >/leader-` + string(spec.ID))(&spec)
			return w.StartProcess(ctx, id, spec)
		},
		signalProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) error {
			look := sdk.ProcessSpec{ID: sdk.ProcessID(fmt.Sprintf("%s-%d%s", p, looks.Add(1), beside)), Token: sdk.NewToken(), Path: "sh", Args: []string{"-c", `kill -0 $(cat /leader-` + string(p) + `)`}}
			if err := w.StartProcess(ctx, id, look); err != nil {
				return w.SignalProcess(ctx, id, p, s) // there is no room to look, so something runs
			}
			over := false
			if err := w.FollowProcess(ctx, id, look.ID, 0, sdk.Follow{Exit: func(e sdk.Exit) error { over = e.Code != 0; return nil }}); err != nil || over {
				return err
			}
			return w.SignalProcess(ctx, id, p, s)
		},
	}
}
