package wasi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

// Command is what a program is run with.
type Command struct {
	Path string   // of the program's file, absolute
	Args []string // the first is the program's own name
	Env  []string // "name=value"; the last of a name wins

	FS    *tree.Namespace
	Umask fs.FileMode

	// Stdin is read by the goroutine that runs the program; where it waits, SetReadDeadline must end that. Nil is at its end.
	// Stdout and Stderr must not be nil. A Write that waits must end when the context of Run does.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Memory limits the program's linear memory together with that of others. Nil: only the engine's limit holds.
	Memory *Memory
}

// Result is how a program ended.
type Result struct {
	Code        int    // 0 to 255, 255 for greater ones; 126: it could not be run; 134: it failed as no program should; 141: nobody reads its output
	Message     string // why, for 126, 134 and where memory ran out; else empty
	OutOfMemory bool   // it was ended because a limit of memory was reached; Code is 137
	PeakMemory  int64  // the most linear memory that it had, in bytes
}

// Exit codes that are not the program's own.
const (
	codeUnfit = 126
	codeTrap  = 134 // as of a program that aborts
	codeKill  = 137
	codePipe  = 141
	codeMost  = 255
)

// Run runs a program to its end. When ctx ends, so does the program, wherever it is, and the result means nothing. Nothing of it is
// left when Run returns.
func (e *Engine) Run(ctx context.Context, cmd Command) (r Result) {
	limit := NewMemory("one program", 4<<30, e.opts.Memory) // what 32 bits can address
	if cmd.Memory != nil {
		limit = cmd.Memory
	}
	mem := &linear{limit: limit}
	defer mem.Free()
	defer func() {
		// Nothing of a program panics but through wazero, which recovers by itself; what is left are its first bytes of memory.
		if v := recover(); v != nil && v != error(errMemory) {
			r = Result{Code: codeTrap, Message: fmt.Sprintf("run %s: the WebAssembly machine failed: %v\n%s", cmd.Path, v, debug.Stack())}
		}
		r.PeakMemory = mem.peak
		if mem.failed != "" {
			r.Code, r.OutOfMemory, r.Message = codeKill, true, fmt.Sprintf("%s ran out of memory: %s", cmd.Path, mem.failed)
		}
	}()
	p, err := e.load(ctx, cmd)
	if err != nil {
		return Result{Code: codeUnfit, Message: fmt.Sprintf("%s cannot be run: %v", cmd.Path, err)}
	}
	defer e.cache.put(p)
	return e.execute(ctx, p.compiled, mem, cmd)
}

// load gives the program at the path.
func (e *Engine) load(ctx context.Context, cmd Command) (*program, error) {
	f, err := cmd.FS.Open("/", cmd.Path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, e.opts.MaxProgramBytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > e.opts.MaxProgramBytes {
		return nil, fmt.Errorf("it is longer than %d bytes", e.opts.MaxProgramBytes)
	}
	return e.cache.get(ctx, content)
}

// compile makes a program from the content of a file.
func (e *Engine) compile(content []byte) (compiled wazero.CompiledModule, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the compiler failed: %v\n%s", v, debug.Stack())
		}
	}()
	content, err = vet(content)
	if err != nil {
		return nil, err
	}
	machine, err := e.machine()
	if err != nil {
		return nil, err
	}
	compiled, err = machine.CompileModule(context.Background(), content)
	if err != nil {
		return nil, fmt.Errorf("it is damaged, or uses what is not supported: %w", err)
	}
	if err := isCommand(compiled); err != nil {
		return nil, errors.Join(err, compiled.Close(context.Background()))
	}
	return compiled, nil
}

// isCommand says why a module is no WASI command.
func isCommand(m wazero.CompiledModule) error {
	for _, f := range m.ImportedFunctions() {
		if module, name, _ := f.Import(); module != wasi_snapshot_preview1.ModuleName {
			return fmt.Errorf("it imports %q of %q; a program may import %q only", name, module, wasi_snapshot_preview1.ModuleName)
		}
	}
	start, ok := m.ExportedFunctions()["_start"]
	if !ok || len(start.ParamTypes()) > 0 || len(start.ResultTypes()) > 0 {
		return errors.New("it is a library: it has no function _start that takes and returns nothing")
	}
	return nil
}

func (e *Engine) execute(ctx context.Context, m wazero.CompiledModule, mem *linear, cmd Command) Result {
	machine, err := e.machine()
	if err != nil {
		return Result{Code: codeUnfit, Message: err.Error()}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	tree := newFiles(cmd.FS, cmd.Umask)
	defer tree.close()
	config := wazero.NewModuleConfig().WithName(""). // or two at once would have the same
								WithArgs(cmd.Args...).
								WithFSConfig(wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(tree, "/")).
								WithStdout(output{ctx, cmd.Stdout, stop}).
								WithStderr(output{ctx, cmd.Stderr, stop}).
								WithSysWalltime().WithSysNanotime().WithRandSource(rand.Reader).
								WithNanosleep(func(ns int64) { sleep(ctx, time.Duration(ns)) }).
								WithOsyield(runtime.Gosched)
	for _, kv := range cmd.Env {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			config = config.WithEnv(name, value)
		}
	}
	if cmd.Stdin != nil {
		in := &input{ctx: ctx, r: cmd.Stdin}
		defer in.wake()()
		config = config.WithStdin(in)
	}
	instance, err := machine.InstantiateModule(experimental.WithMemoryAllocator(ctx, mem), m, config)
	if instance != nil {
		// The context has ended if the program was ended, and is nothing to wazero here; the error is that of files, which tree closes.
		_ = instance.Close(context.WithoutCancel(ctx))
	}
	switch {
	case errors.Is(context.Cause(ctx), errPipe):
		return Result{Code: codePipe}
	case ctx.Err() != nil:
		return Result{Code: codeKill}
	}
	return resultOf(err)
}

// resultOf makes a result of how a program that ended by itself did.
func resultOf(err error) Result {
	if err == nil {
		return Result{}
	}
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		return Result{Code: int(min(exit.ExitCode(), codeMost))}
	}
	return Result{Code: codeTrap, Message: shorten(err.Error())}
}

// shorten keeps a stack trace to what one reads.
func shorten(s string) string {
	const most = 2 << 10
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
