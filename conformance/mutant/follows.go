package mutant

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// followMutants are broken in who follows, and from where.
func followMutants() []Mutant {
	return []Mutant{
		{
			ID: "from-ignored", Doc: "whoever follows from a position gets the output one byte later", Rule: 5,
			Killers: []string{"A07-resume"}, breaks: follower(fromIgnored),
		},
		{
			ID: "delivered-is-done", Doc: "what was delivered counts as acknowledged", Rule: 5,
			Killers: []string{"A08-unacknowledged-kept"}, breaks: follower(deliveredIsDone),
		},
		{
			ID: "gap-silent", Doc: "below what is kept, following begins where the journal does, and says nothing", Rule: 5,
			Killers: []string{"A11-output-gap"}, breaks: follower(gapSilent),
		},
		{
			ID: "superseded-is-done", Doc: "a follower that was superseded ends as if all were over", Rule: 5,
			Killers: []string{"A12-supersede"}, breaks: follower(supersededIsDone),
		},
		{
			ID: "position-taken", Doc: "following from beyond the end succeeds, with nothing", Rule: 5,
			Killers: []string{"A14-bad-position"}, breaks: follower(positionTaken),
		},
		{
			ID: "cancel-kills", Doc: "a follower that is cancelled takes the process with it", Rule: 2,
			Killers: []string{"P12-cancel-leaves", "A20-cancel-quiet"}, breaks: follower(cancelKills),
		},
		{
			ID: "callback-error-wrapped", Doc: "an error of a follower's callback comes back in other words", Rule: 14, Near: true,
			Killers: []string{"I24-callback-errors"}, breaks: follower(callbackErrorWrapped),
		},
		{
			ID: "ack-beyond-counts", Doc: "an acknowledgement beyond what was delivered counts", Rule: 5, Near: true,
			Killers: []string{"A15-ack-beyond"}, breaks: follower(ackBeyondCounts),
		},
		{
			ID: "ack-backwards-fails", Doc: "a smaller acknowledgement after a larger one fails the follower", Rule: 5, Near: true,
			Killers: []string{"A16-ack-smaller"}, breaks: acksHeld(func(p, last sdk.Position, open bool) bool { return !open || p >= last }),
		},
		{
			ID: "closed-acks-fail", Doc: "Acks that are closed fail the follower", Rule: 5, Near: true,
			Killers: []string{"A17-acks-closed"}, breaks: acksHeld(func(_, _ sdk.Position, open bool) bool { return open }),
		},
		{
			ID: "exit-ends", Doc: "a follower ends with the exit, whatever is not acknowledged", Rule: 5, Near: true,
			Killers: []string{"A22-exit-unacknowledged"}, breaks: follower(exitEnds),
		},
		{
			ID: "silence-is-end", Doc: "after a silence of two seconds a follower ends as if all were over", Rule: 5,
			Killers: []string{"I33-silence"}, breaks: follower(silenceIsEnd),
		},
		{
			ID: "lines-only", Doc: "output is held back until its line ends", Rule: 5, Hangs: true,
			Killers: []string{"I32-no-newline"}, breaks: follower(linesOnly),
		},
		{
			ID: "one-follower", Doc: "a container takes one follower at a time", Rule: 5,
			Killers: []string{"I13-unfollowed", "A19-follow-twice"}, breaks: follower(oneFollower),
		},
		{
			ID: "followers-leak", Doc: "whoever follows and leaves before the end takes one of a hundred places for good", Rule: 2,
			Killers: []string{"A09-churn"}, breaks: follower(followersLeak),
		},
	}
}

func fromIgnored(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		if from == 0 {
			return w.FollowProcess(ctx, id, p, from, f)
		}
		own, stop := acknowledged(f)
		defer stop()
		own.Output = func(rs []sdk.Record) error {
			rs = slices.Clone(rs)
			for i := range rs {
				rs[i].Position--
			}
			return f.Output(rs)
		}
		return w.FollowProcess(ctx, id, p, from+1, own)
	}
}

func deliveredIsDone(w sdk.Worker) followFunc {
	var mu sync.Mutex
	delivered := make(map[sdk.ProcessID]sdk.Position)
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		mu.Lock()
		kept := delivered[p]
		mu.Unlock()
		if from < kept {
			return &sdk.Error{Class: sdk.FailedPrecondition, Reason: sdk.ReasonOutputGap, Kind: sdk.KindProcess, ID: string(p), Position: kept}
		}
		own := f
		own.Output = func(rs []sdk.Record) error {
			mu.Lock()
			delivered[p] = rs[len(rs)-1].End()
			mu.Unlock()
			return f.Output(rs)
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}

func gapSilent(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		err := w.FollowProcess(ctx, id, p, from, f)
		if e, ok := errors.AsType[*sdk.Error](err); ok && e.Reason == sdk.ReasonOutputGap {
			return w.FollowProcess(ctx, id, p, e.Position, f)
		}
		return err
	}
}

func supersededIsDone(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		err := w.FollowProcess(ctx, id, p, from, f)
		if errors.Is(err, sdk.ReasonSuperseded) {
			return nil
		}
		return err
	}
}

func positionTaken(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		err := w.FollowProcess(ctx, id, p, from, f)
		if from > 0 && errors.Is(err, sdk.ReasonSpec) {
			return f.Opened(sdk.Opened{State: sdk.ProcessRunning})
		}
		return err
	}
}

func cancelKills(w sdk.Worker) followFunc {
	type follow struct {
		ctx   context.Context
		ended chan struct{}
	}
	var mu sync.Mutex
	follows := make(map[sdk.ProcessID][]follow)
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		own := follow{ctx, make(chan struct{})}
		defer close(own.ended)
		mu.Lock()
		older := slices.Clone(follows[p])
		follows[p] = append(follows[p], own)
		mu.Unlock()
		for _, o := range older {
			if o.ctx.Err() != nil {
				await(ctx, o.ended) // whoever comes next finds it done
			}
		}
		err := w.FollowProcess(ctx, id, p, from, f)
		if ctx.Err() == nil {
			return err
		}
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = w.SignalProcess(after, id, p, sdk.KILL)
		return err
	}
}

func callbackErrorWrapped(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		var own error
		note := func(err error) error {
			own = err
			return err
		}
		g := f
		g.Output = func(rs []sdk.Record) error { return note(f.Output(rs)) }
		err := w.FollowProcess(ctx, id, p, from, g)
		if own != nil {
			return sdk.NewInternal(own, "following: %v", own)
		}
		return err
	}
}

func oneFollower(w sdk.Worker) followFunc {
	followers := newCrowd()
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		if !followers.enter(string(id)) {
			return sdk.NewUnavailable(nil, "container %q is followed by somebody else", id)
		}
		defer followers.leave(ctx, string(id))
		return w.FollowProcess(ctx, id, p, from, f)
	}
}

func followersLeak(w sdk.Worker) followFunc {
	var mu sync.Mutex
	places := 100
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		mu.Lock()
		full := places == 0
		mu.Unlock()
		if full {
			return sdk.NewUnavailable(nil, "there are too many followers")
		}
		err := w.FollowProcess(ctx, id, p, from, f)
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			places = max(0, places-1)
		}
		return err
	}
}

func ackBeyondCounts(w sdk.Worker) followFunc {
	var mu sync.Mutex
	acked := make(map[sdk.ProcessID]sdk.Position)
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		mu.Lock()
		kept := acked[p]
		mu.Unlock()
		if from < kept {
			return &sdk.Error{Class: sdk.FailedPrecondition, Reason: sdk.ReasonOutputGap, Kind: sdk.KindProcess, ID: string(p), Position: kept}
		}
		own, stop := translated(f, func(a sdk.Position) sdk.Position {
			mu.Lock()
			defer mu.Unlock()
			acked[p] = max(acked[p], a)
			return a
		})
		defer stop()
		return w.FollowProcess(ctx, id, p, from, own)
	}
}

// acksHeld fails a follower at an acknowledgement that is not fine; open tells that the channel was not closed.
func acksHeld(fine func(p, last sdk.Position, open bool) bool) func(sdk.Worker) sdk.Worker {
	return follower(func(w sdk.Worker) followFunc {
		return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
			if f.Acks == nil {
				return w.FollowProcess(ctx, id, p, from, f)
			}
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			acks := make(chan sdk.Position)
			own := f
			own.Acks = acks
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				last := from
				for {
					select {
					case a, open := <-f.Acks:
						if !fine(a, last, open) {
							cancel(sdk.NewInternal(nil, "process %q: position %d is acknowledged after %d", p, a, last))
							return
						}
						if !open {
							close(acks)
							return
						}
						last = a
						select {
						case acks <- a:
						case <-ctx.Done():
							return
						}
					case <-ctx.Done():
						return
					}
				}
			}()
			err := w.FollowProcess(ctx, id, p, from, own)
			if cause := context.Cause(ctx); errors.Is(cause, sdk.Internal) {
				err = cause
			}
			cancel(nil)
			<-ended
			return err
		}
	})
}

func exitEnds(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		// The exit is told once the good worker's call has ended: from then on nobody takes an acknowledgement.
		told := errors.New("the exit is there")
		var exit sdk.Exit
		own := f
		own.Exit = func(e sdk.Exit) error {
			exit = e
			return told
		}
		err := w.FollowProcess(ctx, id, p, from, own)
		if err != told {
			return err
		}
		return f.Exit(exit)
	}
}

func silenceIsEnd(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		// It ends when the next output comes, not by a timer: a case that is late does not miss it.
		over := errors.New("it was silent")
		var last time.Time
		own := f
		own.Output = func(rs []sdk.Record) error {
			if !last.IsZero() && time.Since(last) > 2*time.Second {
				return over
			}
			last = time.Now()
			return f.Output(rs)
		}
		err := w.FollowProcess(ctx, id, p, from, own)
		if err == over {
			return nil
		}
		return err
	}
}

func linesOnly(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		var held []sdk.Record
		flush := func() error {
			if len(held) == 0 {
				return nil
			}
			rs := held
			held = nil
			return f.Output(rs)
		}
		own := f
		own.Output = func(rs []sdk.Record) error {
			for _, r := range rs {
				r.Data = slices.Clone(r.Data)
				held = append(held, r)
			}
			if last := held[len(held)-1].Data; len(last) > 0 && last[len(last)-1] != '\n' {
				return nil
			}
			return flush()
		}
		own.Exit = func(e sdk.Exit) error {
			if err := flush(); err != nil {
				return err
			}
			return f.Exit(e)
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}
