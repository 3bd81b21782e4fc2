package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-run/slipway/plugins/memory/internal/shell"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/keeper"
)

// process is one command. Its record stays as long as its container (rule 6).
type process struct {
	id        sdk.ProcessID
	token     sdk.Token
	startedAt time.Time
	journal   *keeper.Journal

	signals chan string
	kill    context.CancelFunc
	ended   chan struct{} // closed when nothing of it runs any more, leftovers included
}

// StartProcess records the process and starts it, both or neither.
func (w *worker) StartProcess(ctx context.Context, container sdk.ContainerID, spec sdk.ProcessSpec) error {
	w.mu.Lock()
	c, started, err := w.admit(container, spec)
	w.mu.Unlock()
	if err != nil || started {
		return err
	}
	exe, command, unfit := w.prepare(c, spec)
	w.mu.Lock()
	defer w.mu.Unlock()
	_, started, err = w.admit(container, spec) // again: much may have happened since
	if err != nil || started {
		return err
	}
	if unfit != nil {
		return unfit
	}
	running, kill := context.WithCancel(context.Background()) // rule 2
	p := &process{
		id: spec.ID, token: spec.Token, startedAt: time.Now(), journal: keeper.New(spec, nil),
		signals: make(chan string, 16), kill: kill, ended: make(chan struct{}),
	}
	c.processes[spec.ID] = p
	c.countWriter(1)
	go w.run(running, c, p, exe, command)
	return nil
}

// admit tells whether a process may start, or has. It needs the mutex.
func (w *worker) admit(container sdk.ContainerID, spec sdk.ProcessSpec) (c *container, started bool, err error) {
	c, err = w.container(container)
	if err != nil {
		return nil, false, err
	}
	if c.gone {
		return nil, false, c.dead()
	}
	if p, ok := c.processes[spec.ID]; ok {
		if p.token != spec.Token {
			return nil, false, sdk.NewAlreadyExists(sdk.KindProcess, string(spec.ID))
		}
		return c, true, nil
	}
	if len(c.processes) >= sdk.MaxProcesses {
		return nil, false, sdk.NewFailedPrecondition(sdk.ReasonProcesses, sdk.KindContainer, string(c.id),
			"container %q has had its %d processes; use another", c.id, sdk.MaxProcesses)
	}
	for _, m := range c.mounts {
		if !m.readOnly && m.volume.tree.Sealed() {
			return nil, false, sealedMount(m.volume, m.path)
		}
	}
	return c, false, nil
}

// prepare finds the program and its directory. Nothing is recorded yet, so all its errors leave no trace but, at worst, the
// directory.
func (w *worker) prepare(c *container, spec sdk.ProcessSpec) (shell.Executable, shell.Command, error) {
	command := shell.Command{Name: spec.Path, Args: spec.Args, Env: withDefaults(spec.Env), Dir: cmp.Or(spec.Dir, c.dir)}
	switch {
	case spec.TTY != nil:
		return shell.Executable{}, command, sdk.NewUnsupported(sdk.FeatureTTY)
	case spec.User != "": // everybody is root, which nobody can choose
		return shell.Executable{}, command, sdk.NewUnsupported(sdk.FeatureUsers)
	}
	if err := w.makeDir(c, command.Dir); err != nil {
		return shell.Executable{}, command, err
	}
	exe, err := w.engine.Resolve(c.files, spec.Path, command.Dir, command.Env)
	switch {
	case errors.Is(err, shell.ErrNotFound):
		err = sdk.NewInvalid(sdk.ReasonExecutableNotFound, "process %q: %q is not in the container%s", spec.ID, spec.Path, w.only())
	case errors.Is(err, shell.ErrNotExecutable):
		err = sdk.NewInvalid(sdk.ReasonNotExecutable, "process %q: %q cannot be executed%s", spec.ID, spec.Path, w.only())
	case err != nil:
		err = fmt.Errorf("process %q: find %q: %w", spec.ID, spec.Path, err)
	}
	return exe, command, err
}

// only tells what else could be the reason why something is not found or cannot be run.
func (w *worker) only() string {
	if w.memory == nil {
		return ""
	}
	return `; this worker runs WASI programs only, for the setting "shell" is false`
}

// withDefaults adds what no program should have to do without.
func withDefaults(env []string) []string {
	env = slices.Clip(env)
	for _, v := range []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"} {
		name, _, _ := strings.Cut(v, "=")
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			env = append(env, v)
		}
	}
	return env
}

// countWriter needs the worker's mutex.
func (c *container) countWriter(n int) {
	for _, m := range c.mounts {
		if !m.readOnly {
			m.volume.writers += n
		}
	}
}

// ListProcesses tells of them in the order of their starts.
func (w *worker) ListProcesses(ctx context.Context, container sdk.ContainerID) ([]sdk.ProcessInfo, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, err := w.container(container)
	if err != nil {
		return nil, err
	}
	infos := make([]sdk.ProcessInfo, 0, len(c.processes))
	for _, p := range c.processes {
		info := sdk.ProcessInfo{ID: p.id, Token: p.token, StartedAt: p.startedAt}
		info.State, info.Exit = p.journal.Status()
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b sdk.ProcessInfo) int { return a.StartedAt.Compare(b.StartedAt) })
	return infos, nil
}

// FollowProcess is the journal's Follow.
func (w *worker) FollowProcess(ctx context.Context, container sdk.ContainerID, id sdk.ProcessID, from sdk.Position, follow sdk.Follow) error {
	p, err := w.process(container, id)
	if err != nil {
		return err
	}
	return p.journal.Follow(ctx, from, follow)
}

// SignalProcess hands a signal to the process, which looks at it between two commands. When too many have not been looked
// at, more are lost, as with a kernel. STOP halts it there, and before what it writes next.
func (w *worker) SignalProcess(ctx context.Context, container sdk.ContainerID, id sdk.ProcessID, signal sdk.Signal) error {
	p, err := w.process(container, id)
	switch {
	case err != nil:
		return err
	case p.journal.State() == sdk.ProcessExited:
		return nil
	case signal == sdk.KILL:
		p.kill()
		return nil
	}
	select {
	case p.signals <- string(signal):
	default:
	}
	return nil
}

func (w *worker) process(container sdk.ContainerID, id sdk.ProcessID) (*process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, err := w.container(container)
	if err != nil {
		return nil, err
	}
	if c.gone {
		return nil, sdk.NewNotFound(sdk.KindContainer, string(container)) // rule 8
	}
	p, ok := c.processes[id]
	if !ok {
		return nil, sdk.NewNotFound(sdk.KindProcess, string(id))
	}
	return p, nil
}

// run is the life of a process.
func (w *worker) run(ctx context.Context, c *container, p *process, exe shell.Executable, command shell.Command) {
	defer close(p.ended)
	defer p.kill()
	command.Stdin = processStdin{ctx, p.journal}
	command.Stdout = processOutput{ctx, p.journal, sdk.Stdout}
	command.Stderr = processOutput{ctx, p.journal, sdk.Stderr}
	command.Signals = p.signals
	r := w.engine.Run(withLimit(ctx, c.memory), c.files, exe, command)
	if ctx.Err() != nil && r.Signal == "" && !r.OutOfMemory {
		// It was killed, and its stdin ended of that: what it made of this end first is not its own exit.
		r.Code, r.Signal = 128+sdk.KILL.Number(), string(sdk.KILL)
	}
	exit := sdk.Exit{
		Code: r.Code, Signal: sdk.Signal(r.Signal), Reason: sdk.ExitExited, Message: r.Message,
		StartedAt: p.startedAt, EndedAt: time.Now(), OutputCut: r.Cut, PeakMemoryBytes: r.PeakMemory,
	}
	switch {
	case exit.Signal != "":
		exit.Reason = sdk.ExitSignalled
	case r.OutOfMemory:
		exit.Reason = sdk.ExitOOM
	}
	w.mu.Lock()
	c.countWriter(-1) // before the exit: whoever sees it may seal
	w.mu.Unlock()
	p.journal.Exit(exit)
}

// processStdin and processOutput are the process's side of its journal.
type processStdin struct {
	ctx     context.Context
	journal *keeper.Journal
}

func (s processStdin) Read(p []byte) (int, error) { return s.journal.ReadStdin(s.ctx, p) }

type processOutput struct {
	ctx     context.Context
	journal *keeper.Journal
	stream  sdk.Stream
}

func (o processOutput) Write(p []byte) (int, error) { return o.WriteContext(o.ctx, p) }

// WriteContext is Write for a command, which may end before the process: ctx comes from that of the process.
func (o processOutput) WriteContext(ctx context.Context, p []byte) (int, error) {
	return o.journal.Write(ctx, o.stream, p)
}
