package launch

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// run owns the plugin: it alone starts and ends processes.
func (p *Plugin) run() {
	defer close(p.done)
	defer p.cancel()
	defer p.killNow()
	o := p.opts
	b := &breaker{min: o.BackoffMin, max: o.BackoffMax, after: o.OpenAfter, window: o.OpenWindow, openOf: o.OpenFor}
	asked := false
	for epoch := uint64(1); p.ctx.Err() == nil; epoch++ {
		p.update(func(r *Report) {
			if asked { // whoever asks has seen what went wrong, and may have mended it
				r.Err = nil
			}
			r.State, r.Epoch, r.Restarts, r.RetryAt = StateStarting, epoch, int(epoch-1), time.Time{}
		})
		inst, failure := p.launch(p.ctx, epoch)
		if failure == nil {
			failure = p.serve(inst, b)
		}
		asked = p.ended(failure, b)
	}
	p.update(func(r *Report) { r.State, r.PID = StateStopped, 0 })
	p.log.Info("plugin stopped")
}

// ended takes note of a failure and waits until it is time to start again. It tells whether somebody asked for that.
func (p *Plugin) ended(failure *Error, b *breaker) (asked bool) {
	restart := failure == nil // it was asked for
	if restart || p.ctx.Err() != nil {
		p.update(func(r *Report) {
			r.PID = 0
			if failure != nil && failure.Exit != nil {
				r.LastExit = failure.Exit
			}
		})
		return restart
	}
	wait, open := b.exit(time.Now(), failure.final())
	p.update(func(r *Report) {
		r.State, r.PID, r.Err, r.RetryAt = StateBackoff, 0, failure, time.Now().Add(wait)
		if open && len(p.kick) == 0 { // else Restart came first: a session is coming
			r.State = StateOpen
		}
		if failure.Path != "" {
			r.Path = failure.Path
		}
		if failure.Exit != nil {
			r.LastExit = failure.Exit
		}
	})
	if open {
		p.log.Error("plugin does not run; it is tried again now and then", "reason", failure.Reason, "error", failure, "next", wait)
	} else {
		p.log.Warn("plugin does not run; restarting it", "reason", failure.Reason, "error", failure, "next", wait)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.kick:
		b.reset()
		asked = true
	case <-p.ctx.Done():
	}
	return asked
}

// serve offers the session until its end, and leaves nothing of it. Nil: it was ended by Restart.
func (p *Plugin) serve(inst *instance, b *breaker) *Error {
	proc := inst.proc
	defer inst.client.Close()
	p.publish(inst)

	ctx, cancel := context.WithCancel(p.ctx)
	beats := make(chan beat)
	var watch sync.WaitGroup
	watch.Go(func() { p.watch(ctx, inst, beats) })
	defer watch.Wait()
	defer cancel()
	stable := time.NewTimer(p.opts.StableAfter)
	defer stable.Stop()

	for {
		select {
		case <-proc.exited:
			p.withdraw()
			<-proc.done
			return p.fail(p.withExit(&Error{Reason: ReasonExited, Message: fmt.Sprintf("its process is gone: %v", &proc.exit)}, proc, nil), inst.path)
		case beat := <-beats:
			if beat.misses >= p.opts.HealthMisses {
				return p.hung(inst, beat)
			}
			p.noteBeat(inst, beat)
		case <-stable.C:
			b.reset()
			p.update(func(r *Report) { r.Err = nil })
		case <-p.kick:
			p.withdraw()
			b.reset()
			p.log.Info("plugin is restarted as asked")
			return p.asked(inst)
		case <-p.ctx.Done():
			return p.asked(inst)
		}
	}
}

// asked ends a process in the orderly way. Nil unless it does not end.
func (p *Plugin) asked(inst *instance) *Error {
	if err := inst.proc.stop(p.killCtx, p.opts.StopGrace, p.opts.termGrace); err != nil {
		return p.fail(p.withExit(&Error{Reason: ReasonHung, Message: "it could not be ended"}, inst.proc, err), inst.path)
	}
	exit := inst.proc.exit
	p.update(func(r *Report) { r.LastExit = &exit })
	return nil
}

// publish offers the session, unless it is to be stopped or restarted already.
func (p *Plugin) publish(inst *instance) {
	p.log.Info("plugin is ready", "pid", inst.proc.pid, "epoch", inst.session.Epoch, "version", inst.session.Info.Version,
		"path", inst.path, "sha256", inst.sum)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil || len(p.kick) > 0 {
		return
	}
	p.session = inst.session
	p.set(func(r *Report) {
		r.State, r.PID, r.Info, r.Path, r.SHA256 = StateReady, inst.proc.pid, inst.session.Info, inst.path, inst.sum
	})
}

// beat is the outcome of one question for a sign of life.
type beat struct {
	misses int // in a row
	err    error
}

// watch asks for signs of life until ctx ends.
func (p *Plugin) watch(ctx context.Context, inst *instance, beats chan<- beat) {
	tick := time.NewTicker(p.opts.HealthEvery)
	defer tick.Stop()
	misses := 0
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		askCtx, cancel := context.WithTimeout(ctx, p.opts.HealthEvery)
		err := inst.client.Health(askCtx)
		cancel()
		if err != nil {
			misses++
		} else {
			misses = 0
		}
		select {
		case beats <- beat{misses, err}:
		case <-ctx.Done():
			return
		}
	}
}

func (p *Plugin) noteBeat(inst *instance, b beat) {
	state := StateReady
	if b.misses > 0 {
		state = StateDegraded
		p.log.Warn("plugin gave no sign of life", "pid", inst.proc.pid, "misses", b.misses, "error", b.err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == inst.session && p.report.State != state {
		p.set(func(r *Report) { r.State = state })
	}
}

// hung ends a process that gives no sign of life, after asking for its goroutines.
func (p *Plugin) hung(inst *instance, b beat) *Error {
	p.withdraw()
	p.log.Error("plugin hangs; it is asked for its goroutines, then killed", "pid", inst.proc.pid, "misses", b.misses, "error", b.err)
	stuck := inst.proc.dump(p.killCtx, p.opts.DumpGrace)
	e := &Error{Reason: ReasonHung, Cause: b.err,
		Message: fmt.Sprintf("it gave no sign of life %d times in a row, asked every %v, and was killed", b.misses, p.opts.HealthEvery)}
	return p.fail(p.withExit(e, inst.proc, stuck), inst.path)
}
