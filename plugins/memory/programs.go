package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/slipway-run/slipway/plugins/memory/internal/shell"
	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
	"github.com/slipway-run/slipway/plugins/memory/internal/wasi"
)

// programs are WASI programs as the shell's engine knows them, which finds them, and runs everything.
type programs struct{ engine *wasi.Engine }

func (programs) Known(head []byte) bool { return wasi.Known(head) }

// Run runs a program. WASI has no current directory: programs go by PWD.
func (p programs) Run(ctx context.Context, files *tree.Namespace, path string, cmd shell.Command) shell.Result {
	r := p.engine.Run(ctx, wasi.Command{
		Path: path, Args: append([]string{cmp.Or(cmd.Name, path)}, cmd.Args...), Env: append(slices.Clip(cmd.Env), "PWD="+cmd.Dir),
		FS: files, Umask: cmd.Umask, Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, Memory: limitIn(ctx),
	})
	return shell.Result{Code: r.Code, Message: r.Message, OutOfMemory: r.OutOfMemory, PeakMemory: r.PeakMemory}
}

// limitKey is for the limit of memory of the container that a process is in, in a context.
type limitKey struct{}

func withLimit(ctx context.Context, limit *wasi.Memory) context.Context {
	return context.WithValue(ctx, limitKey{}, limit)
}

// limitIn is nil if there is no such limit.
func limitIn(ctx context.Context) *wasi.Memory {
	limit, _ := ctx.Value(limitKey{}).(*wasi.Memory)
	return limit
}
