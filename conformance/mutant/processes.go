package mutant

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// processMutants are broken in how processes start, and in signals.
func processMutants() []Mutant {
	return []Mutant{
		{
			ID: "not-executable-missing", Doc: "what cannot be executed is said not to be there", Rule: 11,
			Killers: []string{"P03-exec-bad", "P28-exec-foreign"}, breaks: startErrors(notExecutableMissing),
		},
		{
			ID: "secret-in-error", Doc: "an error of a start tells the environment", Rule: 13,
			Killers: []string{"P18-env"}, breaks: startErrors(secretInError),
		},
		{
			ID: "missing-panics", Doc: "a start of what is not there panics", Rule: 11,
			Killers: []string{"P02-exec-missing"},
			breaks: startErrors(func(_ sdk.ProcessSpec, err error) error {
				if errors.Is(err, sdk.ReasonExecutableNotFound) {
					panic("no such program")
				}
				return err
			}),
		},
		{
			ID: "args-split", Doc: "arguments are split at their spaces", Rule: 11,
			Killers: []string{"P04-args-exact"}, breaks: specChanged(func(s *sdk.ProcessSpec) {
				if len(s.Args) > 3 { // what comes after a script and its name
					s.Args = append(slices.Clone(s.Args[:3]), strings.Fields(strings.Join(s.Args[3:], " "))...)
				}
			}),
		},
		{
			ID: "args-cut", Doc: "what is longer than 64 KiB among the arguments is cut", Rule: 1,
			Killers: []string{"P05-args-bounds", "P29-args-kernel"}, breaks: specChanged(func(s *sdk.ProcessSpec) {
				s.Args = slices.Clone(s.Args)
				for i, a := range s.Args {
					s.Args[i] = a[:min(len(a), 64<<10)]
				}
			}),
		},
		{
			ID: "env-leaks", Doc: "processes get a variable of the plugin's", Rule: 13,
			Killers: []string{"P16-env-hygiene"}, breaks: specChanged(func(s *sdk.ProcessSpec) {
				s.Env = append(slices.Clone(s.Env), "SLIPWAY_PLUGIN=x")
			}),
		},
		{
			ID: "env-trimmed", Doc: "white space around values of the environment is lost", Rule: 13,
			Killers: []string{"P18-env"}, breaks: specChanged(func(s *sdk.ProcessSpec) {
				s.Env = slices.Clone(s.Env)
				for i, e := range s.Env {
					s.Env[i] = strings.TrimSpace(e)
				}
			}),
		},
		{
			ID: "env-first", Doc: "of two variables of one name the first counts", Rule: 13,
			Killers: []string{"P18-env"}, breaks: specChanged(func(s *sdk.ProcessSpec) {
				seen := make(map[string]bool)
				s.Env = slices.DeleteFunc(slices.Clone(s.Env), func(e string) bool {
					name, _, _ := strings.Cut(e, "=")
					again := seen[name]
					seen[name] = true
					return again
				})
			}),
		},
		{
			ID: "dir-retried", Doc: "a process's directory that cannot be made is Unavailable", Rule: 11, Killers: []string{"P37-dir-refused"}, breaks: dirRetried,
		},
		{
			ID: "process-dir-ignored", Doc: "processes always begin in the container's directory", Rule: 11,
			Killers: []string{"P19-dir", "P32-dir-made"}, breaks: specChanged(func(s *sdk.ProcessSpec) { s.Dir = "" }),
		},
		{
			ID: "double-start", Doc: "a command is run twice", Rule: 3,
			Killers: []string{"P20-start-once"}, breaks: doubleStart,
		},
		{
			ID: "exited-unlisted", Doc: "processes that have ended are not listed", Rule: 3,
			Killers: []string{"P20-start-once", "P21-list"}, breaks: exitedUnlisted,
		},
		{
			ID: "fewer-processes", Doc: "a container takes four thousand processes", Rule: 6,
			Killers: []string{"P22-max-processes"}, breaks: fewerProcesses,
		},
		{
			ID: "hup-is-term", Doc: "HUP is sent as TERM", Rule: 8,
			Killers: []string{"S01-trap", "S11-signalled"}, breaks: signalChanged(sdk.HUP, sdk.TERM),
		},
		{
			ID: "bad-signal-taken", Doc: "a signal that nobody knows counts as sent", Rule: 8, Near: true,
			Killers: []string{"S02-unknown-signal"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, signalProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) error {
					err := w.SignalProcess(ctx, id, p, s)
					if errors.Is(err, sdk.ReasonSignal) {
						return nil
					}
					return err
				}}
			},
		},
		{
			ID: "signal-after-exit-fails", Doc: "signalling what has ended says that it never ran", Rule: 8,
			Killers: []string{"S04-signal-after-exit"}, breaks: signalAfterExitFails,
		},
		{
			ID: "signals-one-by-one", Doc: "while a signal is being sent, others are refused", Rule: 8,
			Killers: []string{"S16-signals-many"}, breaks: signalsOneByOne,
		},
		{
			ID: "cont-is-term", Doc: "CONT is sent as TERM", Rule: 8,
			Killers: []string{"S18-cont"}, breaks: signalChanged(sdk.CONT, sdk.TERM),
		},
		{
			ID: "signal-for-all", Doc: "a signal goes to every process of the container", Rule: 8,
			Killers: []string{"S15-one-process"}, breaks: signalForAll,
		},
		{
			ID: "kill-strangers", Doc: "KILL ends what was started last, too, wherever that was", Rule: 8,
			Killers: []string{"S21-kill-strangers"}, breaks: killStrangers,
		},
	}
}

func specChanged(change func(*sdk.ProcessSpec)) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		return &broken{Worker: w, startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
			change(&spec)
			return w.StartProcess(ctx, id, spec)
		}}
	}
}

func startErrors(change func(sdk.ProcessSpec, error) error) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		return &broken{Worker: w, startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
			return change(spec, w.StartProcess(ctx, id, spec))
		}}
	}
}

func notExecutableMissing(spec sdk.ProcessSpec, err error) error {
	if errors.Is(err, sdk.ReasonNotExecutable) {
		return sdk.NewInvalid(sdk.ReasonExecutableNotFound, "process %q: %q is not there", spec.ID, spec.Path)
	}
	return err
}

func secretInError(spec sdk.ProcessSpec, err error) error {
	if errors.Is(err, sdk.ReasonExecutableNotFound) {
		return sdk.NewInvalid(sdk.ReasonExecutableNotFound, "process %q: %q is not there, with %q", spec.ID, spec.Path, spec.Env)
	}
	return err
}

// doubleStart runs everything once more under another id, to its end, and hides it.
func doubleStart(w sdk.Worker) sdk.Worker {
	const again = "-again"
	return &broken{Worker: w,
		startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
			if err := w.StartProcess(ctx, id, spec); err != nil {
				return err
			}
			second := spec
			second.ID += again
			if err := w.StartProcess(ctx, id, second); err != nil {
				return err
			}
			short, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			_ = w.FollowProcess(short, id, second.ID, 0, sdk.Follow{}) // so that it shows when the start has returned
			return nil
		},
		listProcesses: func(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
			infos, err := w.ListProcesses(ctx, id)
			return slices.DeleteFunc(infos, func(i sdk.ProcessInfo) bool { return strings.HasSuffix(string(i.ID), again) }), err
		},
	}
}

// killStrangers sends KILL to the process that was started last, too.
func killStrangers(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	var container sdk.ContainerID
	var process sdk.ProcessID
	return &broken{Worker: w,
		startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
			mu.Lock()
			defer mu.Unlock()
			container, process = id, spec.ID
			return w.StartProcess(ctx, id, spec)
		},
		signalProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) error {
			if s == sdk.KILL {
				mu.Lock()
				defer mu.Unlock()
				_ = w.SignalProcess(ctx, container, process, s)
			}
			return w.SignalProcess(ctx, id, p, s)
		},
	}
}

func exitedUnlisted(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, listProcesses: func(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
		infos, err := w.ListProcesses(ctx, id)
		return slices.DeleteFunc(infos, func(i sdk.ProcessInfo) bool { return i.State == sdk.ProcessExited }), err
	}}
}

func fewerProcesses(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	started := make(map[sdk.ContainerID]int)
	return &broken{Worker: w, startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
		mu.Lock()
		started[id]++
		n := started[id]
		mu.Unlock()
		if n > 4000 {
			return sdk.NewFailedPrecondition(sdk.ReasonProcesses, sdk.KindContainer, string(id), "container %q has had 4000 processes", id)
		}
		return w.StartProcess(ctx, id, spec)
	}}
}

func signalAfterExitFails(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, signalProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) error {
		infos, err := w.ListProcesses(ctx, id)
		if err != nil {
			return err
		}
		for _, i := range infos {
			if i.ID == p && i.State == sdk.ProcessExited {
				return sdk.NewNotFound(sdk.KindProcess, string(p))
			}
		}
		return w.SignalProcess(ctx, id, p, s)
	}}
}

func signalForAll(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, signalProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) error {
		infos, err := w.ListProcesses(ctx, id)
		for _, i := range infos {
			if i.ID != p {
				err = errors.Join(err, w.SignalProcess(ctx, id, i.ID, s))
			}
		}
		return errors.Join(err, w.SignalProcess(ctx, id, p, s))
	}}
}

func signalChanged(from, to sdk.Signal) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		return &broken{Worker: w, signalProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) error {
			if s == from {
				s = to
			}
			return w.SignalProcess(ctx, id, p, s)
		}}
	}
}

func signalsOneByOne(w sdk.Worker) sdk.Worker {
	senders := newCrowd()
	return &broken{Worker: w, signalProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) error {
		if !senders.enter(string(p)) {
			return sdk.NewUnavailable(nil, "process %q is being signalled", p)
		}
		defer senders.leave(ctx, string(p))
		return w.SignalProcess(ctx, id, p, s)
	}}
}

func dirRetried(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
		err := w.StartProcess(ctx, id, spec)
		if errors.Is(err, sdk.ReasonPath) {
			return sdk.NewUnavailable(err, "process %q: %v", spec.ID, err)
		}
		return err
	}}
}
