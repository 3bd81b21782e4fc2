package host

import (
	"context"
	"slices"
	"sync"
)

// hearer hears of calls on workers that stay without an answer.
type hearer interface {
	begin(worker string, why error) // a call is silent
	end(worker string, goesOn bool) // it is not any more: it goes on, or was cut
	slowly(worker, what string)     // a call takes more than a moment
	hearsSlow() bool                // whether it wants to be told that
}

// audience are all who wait for one piece of work: each hears what is told of it, from when it has joined until it leaves. Who joins hears first
// how far it is, and which calls are silent; that a call takes more than a moment is told to those who are there then.
type audience struct {
	mu      sync.Mutex
	members []*listening
	silent  []silentCall    // now
	newest  *StreamProgress // nil: none was told yet
}

// silentCall is a call that has been silent for long.
type silentCall struct {
	worker string
	why    error
}

// listening is one member. What it is told it is told in order.
type listening struct {
	progress func(StreamProgress) // may be nil
	calls    hearer               // may be nil

	mu     sync.Mutex
	left   bool
	silent []string // workers of the calls that it was told are silent
}

// join adds who hears of progress, and what the context's hearer hears. Leave returns once nothing is being told any more.
func (a *audience) join(ctx context.Context, progress func(StreamProgress)) (leave func()) {
	m := &listening{progress: progress}
	m.calls, _ = ctx.Value(silenceKey{}).(hearer)
	m.mu.Lock() // what is told meanwhile comes after how things stood
	defer m.mu.Unlock()
	a.mu.Lock()
	a.members = append(a.members, m)
	silent, newest := slices.Clone(a.silent), a.newest
	a.mu.Unlock()
	if newest != nil && progress != nil {
		progress(*newest)
	}
	for _, s := range silent {
		m.begin(s)
	}
	return func() {
		a.mu.Lock()
		a.members = slices.DeleteFunc(a.members, func(o *listening) bool { return o == m })
		a.mu.Unlock()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.left = true
		for len(m.silent) > 0 {
			m.end(m.silent[0], false)
		}
	}
}

// each calls f with all members that are there now, one after the other. The audience is not locked: a member may take its time.
func (a *audience) each(change func(), f func(*listening)) {
	a.mu.Lock()
	change()
	members := slices.Clone(a.members)
	a.mu.Unlock()
	for _, m := range members {
		m.mu.Lock()
		if !m.left {
			f(m)
		}
		m.mu.Unlock()
	}
}

// tell tells how far the work is.
func (a *audience) tell(s StreamProgress) {
	a.each(func() { a.newest = &s }, func(m *listening) {
		if m.progress != nil {
			m.progress(s)
		}
	})
}

func (a *audience) begin(worker string, why error) {
	call := silentCall{worker, why}
	a.each(func() { a.silent = append(a.silent, call) }, func(m *listening) { m.begin(call) })
}

func (a *audience) end(worker string, goesOn bool) {
	a.each(func() {
		if i := slices.IndexFunc(a.silent, func(s silentCall) bool { return s.worker == worker }); i >= 0 {
			a.silent = slices.Delete(a.silent, i, i+1)
		}
	}, func(m *listening) { m.end(worker, goesOn) })
}

func (a *audience) slowly(worker, what string) {
	a.each(func() {}, func(m *listening) {
		if m.calls != nil {
			m.calls.slowly(worker, what)
		}
	})
}

func (a *audience) hearsSlow() bool { return true }

// begin tells of a silent call. The member's lock is held.
func (m *listening) begin(s silentCall) {
	if m.calls != nil {
		m.silent = append(m.silent, s.worker)
		m.calls.begin(s.worker, s.why)
	}
}

// end tells that it is silent no more, if its beginning was told. The member's lock is held.
func (m *listening) end(worker string, goesOn bool) {
	if i := slices.Index(m.silent, worker); i >= 0 {
		m.silent = slices.Delete(m.silent, i, i+1)
		m.calls.end(worker, goesOn)
	}
}
