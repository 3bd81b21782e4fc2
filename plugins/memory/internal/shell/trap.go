package shell

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/interp"
)

// ignores says whether the shell ignores a signal; what it starts does too.
func (u *unit) ignores(k killed) bool {
	if u.ignored != nil && u.ignored(k) {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	body, trapped := u.traps[k.name]
	return trapped && body == ""
}

// catches is what a builtin does with a signal: it is the shell itself, which looks
// at what it traps after the command. Only one that ends the shell interrupts it.
func (u *unit) catches(hc interp.HandlerContext, k killed) bool {
	if u.ignores(k) {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	_, trapped := u.traps[k.name]
	return trapped && u.isMain(hc)
}

// signal takes a signal to the shell. It does not wait.
func (u *unit) signal(k killed) {
	if u.ignores(k) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	_, trapped := u.traps[k.name]
	_, exit := u.traps["EXIT"]
	switch {
	case trapped:
		u.pending = append(u.pending, k)
	case harmless(k.name) || u.dying != nil:
		return
	case exit:
		u.dying = &k
	default:
		u.cancel(k)
		return
	}
	u.alarm.Store(true)
	if u.stdin != nil { // a read that waits
		u.stdin.SetReadDeadline(time.Unix(1, 0))
	}
}

// epochVariable tells the subshells that were there when a trap ran, and so got
// the signal as well, from those that were started since.
const epochVariable = "_SLIPWAY_EPOCH"

// outlived is a signal that a subshell has got, while a trap of the shell caught it.
func (u *unit) outlived(hc interp.HandlerContext) (k killed, ok bool) {
	epoch := u.epoch.Load()
	if epoch == 0 || u.isMain(hc) || hc.Env.Get(epochVariable).String() == strconv.FormatInt(epoch, 10) {
		return k, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.taken, true
}

// waiting is a signal that the shell has not dealt with.
func (u *unit) waiting(hc interp.HandlerContext) (k killed, ok bool) {
	if k, ok := u.outlived(hc); ok {
		return k, true
	}
	if !u.alarm.Load() {
		return k, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.dying != nil:
		return *u.dying, !u.inExit.Load()
	case len(u.pending) > 0:
		return u.pending[0], true
	}
	return k, false
}

// alarmed exchanges a command for what a signal asks for; nil leaves it.
func (u *unit) alarmed(hc interp.HandlerContext, args []string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.dying != nil {
		if u.inExit.Load() || args[0] == direct+"exiting" {
			return nil
		}
		return []string{"exit", strconv.Itoa(u.dying.status())}
	}
	if len(u.pending) == 0 {
		u.alarm.Store(false)
		return nil
	}
	k := u.pending[0]
	if !u.isMain(hc) {
		// A subshell has no traps: it dies of the signal.
		return []string{"exit", strconv.Itoa(k.status())}
	}
	body, ok := u.takeTrap()
	if !ok {
		return nil
	}
	if args[0] == direct+"end" {
		args = []string{direct + "end", strconv.Itoa(hc.LastExitStatus)}
	}
	return []string{"eval", body + "\n" + quoted(args)}
}

// takeTrap takes the first signal that waits, with u.mu held.
func (u *unit) takeTrap() (body string, ok bool) {
	k := u.pending[0]
	u.pending = u.pending[1:]
	u.alarm.Store(len(u.pending) > 0)
	if u.stdin != nil {
		u.stdin.SetReadDeadline(time.Time{})
	}
	body = u.traps[k.name]
	if body == "" {
		return "", false
	}
	u.taken = k
	return fmt.Sprintf("%s=%d\n%s", epochVariable, u.epoch.Add(1), body), true
}

// pendingTrap takes a trap that must run in the shell that calls.
func (u *unit) pendingTrap(hc interp.HandlerContext) (body string, ok bool) {
	if !u.alarm.Load() {
		return "", false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.dying != nil || len(u.pending) == 0 || !u.isMain(hc) {
		return "", false
	}
	return u.takeTrap()
}

// trap keeps the traps for signals itself, and leaves EXIT and ERR to the
// interpreter. In a subshell it only knows ERR, and ignoring.
func (u *unit) trap(ctx context.Context, hc interp.HandlerContext, args []string) error {
	if len(args) > 0 && args[0] == "-l" {
		return u.kill(ctx, hc, args[:1])
	}
	if len(args) > 0 && args[0] == "-p" || len(args) == 0 || len(args) == 1 && args[0] == "--" {
		u.printTraps(hc)
		return nil
	}
	args = trimDashes(args)
	body, names := args[0], args[1:]
	if _, err := strconv.Atoi(body); err == nil || len(names) == 0 {
		body, names = "-", args
	}
	reset := body == "-"
	text := ""
	if !reset {
		vetted, _, err := u.p.e.vet("trap", body, u.pid)
		if err != nil {
			return refuse(hc, usage, "trap: %v", err)
		}
		text = vetted
	}
	for _, name := range names {
		name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
		switch name {
		case "0", "EXIT":
			name = "EXIT"
		case "ERR":
		case "DEBUG", "RETURN":
			return refuse(hc, usage, "trap: %s: this trap is not supported", name)
		default:
			_, canonical, ok := signalNamed(name)
			if !ok {
				return refuse(hc, 1, "trap: %s: invalid signal specification", name)
			}
			name = canonical
		}
		if err := u.setTrap(ctx, hc, name, text, reset); err != nil {
			return err
		}
	}
	return nil
}

func (u *unit) setTrap(ctx context.Context, hc interp.HandlerContext, name, text string, reset bool) error {
	if name == "EXIT" && text != "" && !u.isMain(hc) {
		return refuse(hc, usage, "trap: EXIT in a subshell: the memory runtime's shell has no such thing")
	}
	if name == "EXIT" || name == "ERR" {
		body := text
		if name == "EXIT" && text != "" {
			body = quote(direct+"exiting") + "\n" + text
		}
		if reset || text == "" {
			body = "-"
		}
		if err := hc.Builtin(ctx, []string{"trap", "--", body, name}); err != nil {
			return err
		}
	}
	if !u.isMain(hc) {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if reset || name == "EXIT" && text == "" {
		delete(u.traps, name)
		return nil
	}
	u.traps[name] = text
	return nil
}

func (u *unit) printTraps(hc interp.HandlerContext) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(u.traps)) {
		shown := name
		if name != "EXIT" && name != "ERR" {
			shown = "SIG" + name
		}
		fmt.Fprintf(hc.Stdout, "trap -- %s %s\n", quote(u.traps[name]), shown)
	}
}
