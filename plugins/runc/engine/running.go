//go:build linux

package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// running is a command of this process in a container.
type running struct {
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when its runc is gone
	left   chan struct{} // closed when Exec is about to return
}

// enter admits a command unless its container is being deleted. Its context ends when that begins.
func (e *Engine) enter(ctx context.Context, id string) (context.Context, *running, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.deleting[id] {
		return nil, nil, fmt.Errorf("container %q: %w", id, ErrNotFound)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r := &running{cancel: cancel, ended: make(chan struct{}), left: make(chan struct{})}
	if e.running[id] == nil {
		e.running[id] = make(map[*running]struct{})
	}
	e.running[id][r] = struct{}{}
	return ctx, r, nil
}

func (e *Engine) leave(id string, r *running) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r.cancel(nil)
	close(r.left)
	delete(e.running[id], r)
	if len(e.running[id]) == 0 {
		delete(e.running, id)
	}
}

// endCommands admits no more commands and ends those there are.
func (e *Engine) endCommands(ctx context.Context, id string) error {
	e.mu.Lock()
	e.deleting[id] = true
	var all []*running
	for r := range e.running[id] {
		all = append(all, r)
	}
	e.mu.Unlock()
	for _, r := range all {
		r.cancel(fmt.Errorf("container %q: %w", id, ErrNotFound))
	}
	for _, r := range all {
		select {
		case <-r.ended: // its caller may still be busy with the output
		case <-r.left:
		case <-ctx.Done():
			e.admitCommands(id)
			return ctx.Err()
		}
	}
	return nil
}

func (e *Engine) admitCommands(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.deleting, id)
}

// parseStat reads the state and the parent out of a process's stat, in which the name may hold anything.
func parseStat(text string) (state string, ppid int, ok bool) {
	end := strings.LastIndexByte(text, ')')
	if end < 0 {
		return "", 0, false
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 2 {
		return "", 0, false
	}
	ppid, err := strconv.Atoi(fields[1])
	return fields[0], ppid, err == nil
}
