package mutant

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

type followFunc = func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error

// follower breaks FollowProcess alone.
func follower(with func(w sdk.Worker) followFunc) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker { return &broken{Worker: w, followProcess: with(w)} }
}

// processMutants are broken in processes, their output and their stdin.
func processMutants() []Mutant {
	return []Mutant{
		{
			ID: "late-byte", Doc: "a record comes after the exit",
			Killers: []string{"I18-no-late-bytes", "P01-run-true"}, breaks: follower(lateByte),
		},
		{
			ID: "lost-chunk", Doc: "one record in a hundred is lost without a hole in the positions",
			Killers: []string{"X08-quick-output"}, breaks: follower(lostChunk),
		},
		{
			ID: "streams-swapped", Doc: "stderr is said to be stdout",
			Killers: []string{"I01-split"}, breaks: follower(streamsSwapped),
		},
		{
			ID: "from-ignored", Doc: "whoever follows from a position gets the output one byte later",
			Killers: []string{"A07-resume"}, breaks: follower(fromIgnored),
		},
		{
			ID: "double-start", Doc: "a command is run twice",
			Killers: []string{"P20-start-once"}, breaks: doubleStart,
		},
		{
			ID: "args-split", Doc: "arguments are split at their spaces",
			Killers: []string{"P04-args-exact"}, breaks: specChanged(func(s *sdk.ProcessSpec) {
				if len(s.Args) > 3 { // what comes after a script and its name
					s.Args = append(slices.Clone(s.Args[:3]), strings.Fields(strings.Join(s.Args[3:], " "))...)
				}
			}),
		},
		{
			ID: "env-leaks", Doc: "processes get a variable of the plugin's",
			Killers: []string{"P16-env-hygiene"}, breaks: specChanged(func(s *sdk.ProcessSpec) {
				s.Env = append(slices.Clone(s.Env), "SLIPWAY_PLUGIN=x")
			}),
		},
		{
			ID: "dir-ignored", Doc: "processes always begin in the container's directory",
			Killers: []string{"P19-dir"}, breaks: specChanged(func(s *sdk.ProcessSpec) { s.Dir = "" }),
		},
		{
			ID: "exited-unlisted", Doc: "processes that have ended are not listed",
			Killers: []string{"P20-start-once", "P21-list"}, breaks: exitedUnlisted,
		},
		{
			ID: "tombstone-lost", Doc: "an exit is told once",
			Killers: []string{"A05-tombstone"}, breaks: follower(tombstoneLost),
		},
		{
			ID: "killed-is-zero", Doc: "a process that a signal ended has exited with 0",
			Killers: []string{"S11-signalled", "S12-kill-at-once"}, breaks: exitChanged(func(e *sdk.Exit) {
				if e.Signal != "" {
					e.Code, e.Signal, e.Reason = 0, "", sdk.ExitExited
				}
			}),
		},
		{
			ID: "code-cut", Doc: "exit codes lose their highest bit",
			Killers: []string{"X01-codes"}, breaks: exitChanged(func(e *sdk.Exit) { e.Code &= 0x7f }),
		},
		{
			ID: "cancel-kills", Doc: "a follower that is cancelled takes the process with it",
			Killers: []string{"P12-cancel-leaves"}, breaks: follower(cancelKills),
		},
		{
			ID: "stdin-repeated", Doc: "a stdin that is resumed repeats a byte",
			Killers: []string{"I10-stdin-error", "I20-stdin-resume"}, breaks: follower(stdinRepeated),
		},
		{
			ID: "stdin-error-is-end", Doc: "a stdin that fails is taken for one that has ended",
			Killers: []string{"I10-stdin-error"}, breaks: follower(stdinErrorIsEnd),
		},
		{
			ID: "zero-after-crash", Doc: "after its plugin was killed, a process that nobody watched has exited with 0",
			Killers: []string{"R02-kill-running"}, breaks: zeroAfterCrash,
		},
	}
}

func lateByte(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		end := from
		own := f
		own.Output = func(rs []sdk.Record) error {
			end = rs[len(rs)-1].End()
			return f.Output(rs)
		}
		own.Exit = func(e sdk.Exit) error {
			if err := f.Exit(e); err != nil {
				return err
			}
			return f.Output([]sdk.Record{{Position: end, Stream: sdk.Stdout, Time: time.Now(), Data: []byte("!")}})
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}

func lostChunk(w sdk.Worker) followFunc {
	var n atomic.Int64
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		lost := sdk.Position(0)
		own := f
		own.Output = func(rs []sdk.Record) error {
			var kept []sdk.Record
			for _, r := range rs {
				if n.Add(1)%100 == 0 {
					lost += sdk.Position(len(r.Data))
					continue
				}
				r.Position -= lost
				kept = append(kept, r)
			}
			if len(kept) == 0 {
				return nil
			}
			return f.Output(kept)
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}

func streamsSwapped(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		own := f
		own.Output = func(rs []sdk.Record) error {
			rs = slices.Clone(rs)
			for i := range rs {
				rs[i].Stream = sdk.Stdout
			}
			return f.Output(rs)
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}

func fromIgnored(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		own := f
		own.Output = func(rs []sdk.Record) error {
			rs = slices.Clone(rs)
			for i := range rs {
				rs[i].Position--
			}
			return f.Output(rs)
		}
		if from == 0 {
			own = f
		} else {
			from++
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
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
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			w.FollowProcess(short, id, second.ID, 0, sdk.Follow{}) // so that it shows when the start has returned
			return nil
		},
		listProcesses: func(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
			infos, err := w.ListProcesses(ctx, id)
			return slices.DeleteFunc(infos, func(i sdk.ProcessInfo) bool { return strings.HasSuffix(string(i.ID), again) }), err
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

func exitedUnlisted(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, listProcesses: func(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
		infos, err := w.ListProcesses(ctx, id)
		return slices.DeleteFunc(infos, func(i sdk.ProcessInfo) bool { return i.State == sdk.ProcessExited }), err
	}}
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

func cancelKills(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		err := w.FollowProcess(ctx, id, p, from, f)
		if ctx.Err() == nil {
			return err
		}
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		w.SignalProcess(after, id, p, sdk.KILL)
		w.FollowProcess(after, id, p, from, sdk.Follow{Acks: make(chan sdk.Position), Exit: func(sdk.Exit) error { cancel(); return nil }})
		return err
	}
}

func stdinRepeated(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		own := f
		if f.Stdin == nil {
			return w.FollowProcess(ctx, id, p, from, f)
		}
		in := &repeater{r: f.Stdin}
		own.Stdin = in
		own.Opened = func(o sdk.Opened) error {
			in.armed.Store(o.StdinTaken > 0)
			return f.Opened(o)
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}

// repeater gives the first byte twice.
type repeater struct {
	r     io.Reader
	armed atomic.Bool
}

func (r *repeater) Read(p []byte) (int, error) {
	if len(p) < 2 || !r.armed.Load() {
		return r.r.Read(p)
	}
	n, err := r.r.Read(p[1:])
	if n == 0 {
		return 0, err
	}
	r.armed.Store(false)
	p[0] = p[1]
	return n + 1, err
}

func stdinErrorIsEnd(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		if f.Stdin == nil {
			return w.FollowProcess(ctx, id, p, from, f)
		}
		in := &ender{r: f.Stdin}
		own := f
		own.Stdin = in
		return w.FollowProcess(ctx, id, p, from, own)
	}
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

// crasher remembers which processes were running when the plugin was killed.
type crasher struct {
	broken

	mu      sync.Mutex
	started map[sdk.ProcessID]bool
	zero    map[sdk.ProcessID]bool
}

func zeroAfterCrash(w sdk.Worker) sdk.Worker {
	c := &crasher{started: make(map[sdk.ProcessID]bool), zero: make(map[sdk.ProcessID]bool)}
	c.broken = broken{Worker: w,
		startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
			err := w.StartProcess(ctx, id, spec)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.started[spec.ID] = true
			return err
		},
		followProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
			c.mu.Lock()
			zero := c.zero[p]
			c.mu.Unlock()
			if !zero {
				return w.FollowProcess(ctx, id, p, from, f)
			}
			if err := f.Opened(sdk.Opened{State: sdk.ProcessExited}); err != nil {
				return err
			}
			return f.Exit(sdk.Exit{Reason: sdk.ExitExited, StartedAt: time.Now(), EndedAt: time.Now()})
		},
	}
	return c
}

// Crashed implements Crasher.
func (c *crasher) Crashed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.started {
		c.zero[p] = true
	}
}
