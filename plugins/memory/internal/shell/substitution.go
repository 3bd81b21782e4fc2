package shell

import (
	"context"
	"fmt"
	"os"
	"reflect"

	"mvdan.cc/sh/v3/interp"
)

// keepOutput is keep: what a >(command) prints goes where the output goes now.
func (u *unit) keepOutput(ctx context.Context, hc interp.HandlerContext, _ []string) error {
	if o, ok := u.p.handles.get(hc.Env.Get(outVariable).String()); ok && reflect.TypeOf(hc.Stdout).Comparable() && o.w == hc.Stdout {
		return nil
	}
	key, err := u.p.handles.add(handle{w: hc.Stdout})
	if err != nil {
		return refuse(hc, 1, "%s: >(...): %v", u.name, err)
	}
	return assign(ctx, hc, outVariable, key)
}

// substitute is sub r or sub w: it makes the pipe between a process substitution and whoever opens its name, which it prints.
func (u *unit) substitute(ctx context.Context, hc interp.HandlerContext, args []string) error {
	if len(args) != 1 {
		return status(usage)
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return refuse(hc, 1, "%s: process substitution: %v", u.name, err)
	}
	both := func() {
		pr.Close()
		pw.Close()
	}
	key, err := u.p.handles.add(handle{r: pr, w: pw, ends: new([2]uint32)})
	if err != nil {
		both()
		return refuse(hc, 1, "%s: process substitution: %v", u.name, err)
	}
	named := pr // what the script has the name of
	if args[0] == "w" {
		named = pw
	}
	u.mu.Lock()
	u.named = append(u.named, named)
	u.mu.Unlock()
	u.p.mu.Lock()
	u.p.substitutions = append(u.p.substitutions, pr, pw)
	u.p.mu.Unlock()
	u.p.substituted(1)
	fmt.Fprintf(hc.Stdout, "/dev/fd/%s", key)
	return assign(ctx, hc, subVariable, key)
}

// substituted counts the commands of process substitutions that have not ended. Before they have begun, nothing of them runs.
func (p *process) substituted(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loose == 0 {
		p.settled = make(chan struct{})
	}
	if p.loose = max(p.loose+n, 0); p.loose == 0 {
		close(p.settled)
	}
}

// atRest is closed when none of them is left.
func (p *process) atRest() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settled
}

// closeNamed ends the process substitutions that a shell leaves behind: nobody has their names any more.
func (u *unit) closeNamed() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, f := range u.named {
		f.Close()
	}
}
