package conformance

import (
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// watch holds the callbacks of one FollowProcess against what rules 5 to 7 promise, whatever the case looks at.
type watch struct {
	c *C

	mu     sync.Mutex
	busy   bool
	opened bool
	exited bool
	ended  bool
	next   sdk.Position // where the next record must begin
	taken  int64
}

func (w *watch) enter(what string) (ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		w.c.violation("5m", "what a callback uses may be gone once the call has returned", "%s was called after FollowProcess had returned", what)
		return false
	}
	if w.busy {
		w.c.violation("5m", "callbacks of one call come one after another: a host keeps no lock against them", "%s was called during another callback", what)
	}
	if !w.opened && what != "Opened" {
		w.c.violation("5m", "without Opened a follower does not know where it stands", "%s was called before Opened", what)
	}
	w.busy = true
	return true
}

func (w *watch) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
}

func (w *watch) returned() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

func (w *watch) wrap(f sdk.Follow) sdk.Follow {
	own := f
	own.Opened = func(o sdk.Opened) error {
		if !w.enter("Opened") {
			return nil
		}
		defer w.leave()
		if w.opened {
			w.c.violation("5m", "a follower's place is told once", "Opened was called twice")
		}
		w.opened = true
		if f.Opened == nil {
			return nil
		}
		return f.Opened(o)
	}
	own.Output = func(records []sdk.Record) error {
		if !w.enter("Output") {
			return nil
		}
		defer w.leave()
		w.check(records)
		if f.Output == nil {
			return nil
		}
		return f.Output(records)
	}
	own.Exit = func(e sdk.Exit) error {
		if !w.enter("Exit") {
			return nil
		}
		defer w.leave()
		if w.exited {
			w.c.violation("6d", "a process ends once", "Exit was called twice")
		}
		w.exited = true
		checkExit(w.c, e)
		if f.Exit == nil {
			return nil
		}
		return f.Exit(e)
	}
	own.Taken = func(n int64) {
		if !w.enter("Taken") {
			return
		}
		defer w.leave()
		if n < w.taken {
			w.c.violation("7e", "Taken counts all bytes that were taken: a follower forgets what lies before", "Taken says %d after %d", n, w.taken)
		}
		w.taken = n
		if f.Taken != nil {
			f.Taken(n)
		}
	}
	return own
}

func (w *watch) check(records []sdk.Record) {
	if len(records) == 0 {
		w.c.violation("5d", "Output delivers at least one record", "Output was called with no record")
	}
	for _, r := range records {
		if w.exited {
			w.c.violation("6c", "every journalled byte comes before the exit: a host closes its copy of the output there",
				"a record of %s at %d came after the exit", r.Stream, r.Position)
		}
		if r.Position != w.next {
			w.c.violation("5d", "records come in order and without holes: a host could not tell lost output from none",
				"a record begins at %d, want %d", r.Position, w.next)
		}
		if r.IsGap() {
			if len(r.Data) != 0 || r.GapTo <= r.Position {
				w.c.violation("5h", "a gap stands for dropped bytes and has none", "gap at %d to %d with %d bytes", r.Position, r.GapTo, len(r.Data))
			}
		} else if len(r.Data) == 0 || len(r.Data) > sdk.MaxRecordBytes || (r.Stream != sdk.Stdout && r.Stream != sdk.Stderr) {
			w.c.violation("5d", "a record holds 1 to MaxRecordBytes bytes of stdout or stderr",
				"record at %d: stream %d, %d bytes", r.Position, r.Stream, len(r.Data))
		}
		w.next = r.End()
	}
}

func checkExit(c *C, e sdk.Exit) {
	const why = "a step's success hangs on the exit: it must say one thing"
	if e.Code < 0 || e.Code > 255 {
		c.violation("6d", why, "exit code %d is not in 0 to 255", e.Code)
	}
	switch e.Reason {
	case sdk.ExitExited:
		if e.Signal != "" {
			c.violation("6d", why, "exit: reason %q, but signal %q", e.Reason, e.Signal)
		}
	case sdk.ExitSignalled, sdk.ExitOOM, sdk.ExitLimit:
		if e.Code == 0 {
			c.violation("6d", why, "exit: reason %q, but code 0", e.Reason)
		}
	default:
		c.violation("6d", why, "exit: reason %q is not one of the contract", e.Reason)
	}
}
