package mutant

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// linuxMutants are broken in what only processes of a real Linux system show. Some put a shell of the container's own between, or run a command
// beside: those need a shell like busybox's in the container.
func linuxMutants() []Mutant {
	return []Mutant{
		{
			ID: "tty-forgotten", Doc: "a process that should have a terminal has none", Rule: 5,
			Killers: []string{"T01-isatty"}, breaks: specChanged(func(s *sdk.ProcessSpec) { s.TTY = nil }),
		},
		{
			ID: "size-swapped", Doc: "columns are taken for rows", Rule: 14,
			Killers: []string{"T02-size"}, breaks: specChanged(func(s *sdk.ProcessSpec) {
				if s.TTY != nil {
					s.TTY = &sdk.TTY{Columns: s.TTY.Rows, Rows: s.TTY.Columns}
				}
			}),
		},
		{
			ID: "resize-forgotten", Doc: "a new size is heard and forgotten", Rule: 8, Hangs: true,
			Killers: []string{"T03-resize"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, resizeProcess: func(context.Context, sdk.ContainerID, sdk.ProcessID, sdk.TTY) error { return nil }}
			},
		},
		{
			ID: "resize-taken", Doc: "a size for a process without a terminal counts as set", Rule: 8,
			Killers: []string{"T04-resize-refused"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, resizeProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, size sdk.TTY) error {
					err := sdk.ResizeProcess(ctx, w, id, p, size)
					if errors.Is(err, sdk.FailedPrecondition) {
						return nil
					}
					return err
				}}
			},
		},
		{
			ID: "tabs-lost", Doc: "tabs in the output become spaces, as on a line printer", Rule: 5, Hangs: true,
			Killers: []string{"T05-newlines"}, breaks: bytesChanged(func(r *sdk.Record) {
				r.Data = []byte(strings.ReplaceAll(string(r.Data), "\t", " "))
			}),
		},
		{
			ID: "interrupt-is-term", Doc: "what Ctrl-C ended is said to have been ended by TERM", Rule: 8,
			Killers: []string{"T06-keys"}, breaks: exitChanged(func(e *sdk.Exit) {
				if e.Signal == sdk.INT {
					e.Signal, e.Code = sdk.TERM, 143
				}
			}),
		},
		{
			ID: "output-ends-early", Doc: "what comes after 32 KiB is lost", Rule: 6,
			Killers: []string{"T07-complete-output", "I03-tiny-writes", "I04-huge-write"},
			breaks:  cutOutput(func(p sdk.Position, _ opened) bool { return p >= 32<<10 }),
		},
		{
			ID: "zombie-kept", Doc: "a child that has ended is waited for by nobody", Rule: 6, Hangs: true,
			Killers: []string{"P14-zombies"}, breaks: zombieKept,
		},
		{
			ID: "descriptor-leaks", Doc: "a process begins with a descriptor that is none of its own", Rule: 11,
			Killers: []string{"P15-descriptors"}, breaks: specChanged(inShell(`exec 9</dev/null`)),
		},
		{
			ID: "umask-kept", Doc: "a process begins with another umask than the contract's", Rule: 11,
			Killers: []string{"P17-defaults"}, breaks: specChanged(inShell(`umask 077`)),
		},
		{
			ID: "daemons-killed", Doc: "with a process ends all that it has left", Rule: 6,
			Killers: []string{"P24-daemon"}, breaks: follower(daemonsKilled),
		},
		{
			ID: "leader-alone", Doc: "a signal reaches the leader alone", Rule: 8, Hangs: true,
			Killers: []string{"S13-group", "S08-kill-tree"}, breaks: leaderAlone,
		},
		{
			ID: "halt-is-end", Doc: "a process that was halted is listed as exited", Rule: 8,
			Killers: []string{"S14-stop-cont"}, breaks: haltIsEnd,
		},
		{
			ID: "user-ignored", Doc: "all processes are root's", Rule: 11,
			Killers: []string{"P23-user-forms", "P27-user-files"},
			breaks:  specChanged(func(s *sdk.ProcessSpec) { s.User = "" }),
		},
		{
			ID: "out-of-memory-is-killed", Doc: "what memory ran out for is said to have been killed", Rule: 6,
			Killers: []string{"X03-out-of-memory"}, breaks: exitChanged(func(e *sdk.Exit) {
				if e.Reason == sdk.ExitOOM {
					e.Reason, e.Signal, e.Code = sdk.ExitSignalled, sdk.KILL, 137
				}
			}),
		},
		{
			ID: "memory-unlimited", Doc: "a limit of memory is not set", Rule: 6, Hangs: true,
			Killers: []string{"L06-memory-together", "X03-out-of-memory"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
					spec.Limits.MemoryBytes = 0
					return w.CreateContainer(ctx, spec, progress)
				}}
			},
		},
		{
			ID: "disk-unlimited", Doc: "a limit of disk is not set", Rule: 14,
			Killers: []string{"V20-disk"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
					spec.Limits.DiskBytes = 0
					return w.CreateContainer(ctx, spec, progress)
				}}
			},
		},
		{
			ID: "path-ignored", Doc: "a bare name is sought in the plugin's own PATH", Rule: 11,
			Killers: []string{"P06-path-lookup"}, breaks: specChanged(func(s *sdk.ProcessSpec) {
				s.Env = slices.DeleteFunc(slices.Clone(s.Env), func(e string) bool { return strings.HasPrefix(e, "PATH=") })
			}),
		},
		{
			ID: "owner-forgotten", Doc: "a volume's root belongs to root, whoever should own it", Rule: 9,
			Killers: []string{"V18-owner"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
					spec.UID, spec.GID = 0, 0
					return w.CreateVolume(ctx, spec)
				}}
			},
		},
		{
			ID: "processors-unlimited", Doc: "a limit of processors is not set", Rule: 14,
			Killers: []string{"L02-cpu"}, breaks: processors(func(int64) int64 { return 0 }),
		},
		{
			ID: "processors-alike", Doc: "whoever asks for a limit of processors gets one", Rule: 14,
			Killers: []string{"L02-cpu"}, breaks: processors(func(asked int64) int64 { return min(asked, 1) * 1000 }),
		},
		{
			ID: "pids-unlimited", Doc: "a limit of processes is not set", Rule: 14,
			Killers: []string{"L01-pids"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
					spec.Limits.PIDs = 0
					return w.CreateContainer(ctx, spec, progress)
				}}
			},
		},
	}
}

// inShell has the container's shell do something before it becomes the process.
func inShell(script string) func(*sdk.ProcessSpec) {
	return func(s *sdk.ProcessSpec) {
		s.Args = slices.Concat([]string{"-c", script + `; exec "$0" "$@"`, s.Path}, s.Args)
		s.Path = "sh"
	}
}

// beside marks processes that a mutant runs beside those it was asked for.
const beside = "-beside"

// unlisted hides them.
func unlisted(w sdk.Worker) func(context.Context, sdk.ContainerID) ([]sdk.ProcessInfo, error) {
	return func(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
		infos, err := w.ListProcesses(ctx, id)
		return slices.DeleteFunc(infos, func(i sdk.ProcessInfo) bool { return strings.HasSuffix(string(i.ID), beside) }), err
	}
}

// run runs a script in a container, to its end if it has one soon.
func runScript(ctx context.Context, w sdk.Worker, id sdk.ContainerID, name sdk.ProcessID, wait bool, script string) error {
	spec := sdk.ProcessSpec{ID: name + beside, Token: sdk.NewToken(), Path: "sh", Args: []string{"-c", script}}
	if err := w.StartProcess(ctx, id, spec); err != nil || !wait {
		return err
	}
	return w.FollowProcess(ctx, id, spec.ID, 0, sdk.Follow{})
}

func zombieKept(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, listProcesses: unlisted(w),
		createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
			if err := w.CreateContainer(ctx, spec, progress); err != nil {
				return err
			}
			return runScript(ctx, w, spec.ID, "zombie", false, `true & exec sleep 3600`)
		},
	}
}

func daemonsKilled(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		own := f
		own.Exit = func(e sdk.Exit) error {
			_ = runScript(ctx, w, id, p, true, `kill -9 -1`) // which ends this, too
			return f.Exit(e)
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}

func leaderAlone(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, listProcesses: unlisted(w),
		startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
			inShell(`echo $$ >/leader-` + string(spec.ID))(&spec)
			return w.StartProcess(ctx, id, spec)
		},
		signalProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) error {
			return runScript(ctx, w, id, p, true, `kill -`+string(s)+` $(cat /leader-`+string(p)+`)`)
		},
	}
}

func haltIsEnd(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	halted := make(map[sdk.ProcessID]bool)
	return &broken{Worker: w,
		signalProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) error {
			mu.Lock()
			halted[p] = s == sdk.STOP
			mu.Unlock()
			return w.SignalProcess(ctx, id, p, s)
		},
		listProcesses: func(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
			infos, err := w.ListProcesses(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			for i := range infos {
				if halted[infos[i].ID] {
					infos[i].State, infos[i].Exit = sdk.ProcessExited, &sdk.Exit{Code: 147, Reason: sdk.ExitSignalled, Signal: sdk.STOP}
				}
			}
			return infos, err
		},
	}
}

// processors changes what is asked for as a limit of processors.
func processors(change func(asked int64) int64) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
			spec.Limits.CPUMillis = change(spec.Limits.CPUMillis)
			return w.CreateContainer(ctx, spec, progress)
		}}
	}
}
