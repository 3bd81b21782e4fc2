package mutant

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// outputMutants are broken in what a follower gets.
func outputMutants() []Mutant {
	return []Mutant{
		{
			ID: "late-byte", Doc: "a record comes after the exit", Rule: 6,
			Killers: []string{"I18-no-late-bytes", "P01-run-true"}, breaks: follower(lateByte),
		},
		{
			ID: "lost-chunk", Doc: "one record in fifty is lost, and nothing shows where it was", Rule: 6,
			Killers: []string{"X08-quick-output"}, breaks: shorter(func() recordFunc {
				var n atomic.Int64
				return func(r *sdk.Record) bool { return n.Add(1)%50 != 0 }
			}),
		},
		{
			ID: "streams-joined", Doc: "stderr is said to be stdout", Rule: 5,
			Killers: []string{"I01-split", "I34-big-both", "I26-order-across"}, breaks: bytesChanged(func(r *sdk.Record) { r.Stream = sdk.Stdout }),
		},
		{
			ID: "seven-bits", Doc: "bytes beyond ASCII become question marks", Rule: 5,
			Killers: []string{"I02-binary-safe"}, breaks: bytesChanged(func(r *sdk.Record) {
				r.Data = slices.Clone(r.Data)
				for i, b := range r.Data {
					if b > 0x7f {
						r.Data[i] = '?'
					}
				}
			}),
		},
		{
			ID: "halves-swapped", Doc: "of long records the second half comes first", Rule: 5,
			Killers: []string{"I17-order", "I05-big-output"}, breaks: bytesChanged(func(r *sdk.Record) {
				if half := len(r.Data) / 2; half > 500 {
					r.Data = slices.Concat(r.Data[half:], r.Data[:half])
				}
			}),
		},
		{
			ID: "output-ends", Doc: "what comes after 4 MiB is lost", Rule: 5,
			Killers: []string{"I07-duplex"}, breaks: cutOutput(func(p sdk.Position, _ opened) bool { return p >= 4<<20 }),
		},
		{
			ID: "late-follower-cut", Doc: "who comes later than the grace after a start gets 64 KiB", Rule: 6,
			Killers: []string{"I25-spill-after-exit"},
			breaks:  cutOutput(func(p sdk.Position, o opened) bool { return p >= 64<<10 && o.since > sdk.OutputGrace }),
		},
		{
			ID: "late-output-lost", Doc: "who comes after the end gets the exit alone", Rule: 5,
			Killers: []string{"A13-follow-exited", "A21-late-follower"},
			breaks:  cutOutput(func(_ sdk.Position, o opened) bool { return o.State == sdk.ProcessExited }),
		},
		{
			ID: "gap-hidden", Doc: "nothing stands for output that was dropped", Rule: 5,
			Killers: []string{"I19-spill-drop"}, breaks: shorter(func() recordFunc {
				return func(r *sdk.Record) bool { return !r.IsGap() }
			}),
		},
		{
			ID: "spill-ignored", Doc: "unacknowledged output is kept without the bound that was asked for", Rule: 5,
			Killers: []string{"I12-spill-block"}, breaks: spillIgnored,
		},
	}
}

func lateByte(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		var end atomic.Int64
		end.Store(int64(from))
		own, stop := translated(f, func(p sdk.Position) sdk.Position { return min(p, sdk.Position(end.Load())) })
		defer stop()
		own.Output = func(rs []sdk.Record) error {
			end.Store(int64(rs[len(rs)-1].End()))
			return f.Output(rs)
		}
		own.Exit = func(e sdk.Exit) error {
			if err := f.Exit(e); err != nil {
				return err
			}
			return f.Output([]sdk.Record{{Position: sdk.Position(end.Load()), Stream: sdk.Stdout, Time: time.Now(), Data: []byte("!")}})
		}
		return w.FollowProcess(ctx, id, p, from, own)
	}
}

// spillIgnored lets a process that would be held run to its end before its start returns: so it is seen by whoever looks.
func spillIgnored(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
		if spec.Spill == 0 {
			return w.StartProcess(ctx, id, spec)
		}
		spec.Spill = 0
		if err := w.StartProcess(ctx, id, spec); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err := w.FollowProcess(short, id, spec.ID, 0, sdk.Follow{Acks: make(chan sdk.Position), Exit: func(sdk.Exit) error { cancel(); return nil }})
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	}}
}

// recordFunc says whether a record is delivered.
type recordFunc func(*sdk.Record) bool

// bytesChanged changes records in place, not their length.
func bytesChanged(change func(*sdk.Record)) func(sdk.Worker) sdk.Worker {
	return follower(func(w sdk.Worker) followFunc {
		return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
			own := f
			own.Output = func(rs []sdk.Record) error {
				rs = slices.Clone(rs)
				for i := range rs {
					if !rs[i].IsGap() {
						change(&rs[i])
					}
				}
				return f.Output(rs)
			}
			return w.FollowProcess(ctx, id, p, from, own)
		}
	})
}

// shorter leaves out records, and closes up the positions.
func shorter(begin func() recordFunc) func(sdk.Worker) sdk.Worker {
	return follower(func(w sdk.Worker) followFunc {
		keep := begin()
		return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
			lost := sdk.Position(0)
			own, stop := acknowledged(f)
			defer stop()
			own.Output = func(rs []sdk.Record) error {
				var kept []sdk.Record
				for _, r := range rs {
					if !keep(&r) {
						lost += r.End() - r.Position
						continue
					}
					r.Position -= lost
					if r.IsGap() {
						r.GapTo -= lost
					}
					kept = append(kept, r)
				}
				if len(kept) == 0 {
					return nil
				}
				return f.Output(kept)
			}
			return w.FollowProcess(ctx, id, p, from, own)
		}
	})
}

// opened is what is known of a process when somebody begins to follow it.
type opened struct {
	sdk.Opened
	since time.Duration // its start
}

// cutOutput delivers nothing from the first record on that begins where lost says.
func cutOutput(lost func(p sdk.Position, o opened) bool) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		var mu sync.Mutex
		starts := make(map[sdk.ProcessID]time.Time)
		return &broken{Worker: w,
			startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
				mu.Lock()
				starts[spec.ID] = time.Now()
				mu.Unlock()
				return w.StartProcess(ctx, id, spec)
			},
			followProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
				mu.Lock()
				at := opened{since: time.Since(starts[p])}
				mu.Unlock()
				own, stop := acknowledged(f)
				defer stop()
				own.Opened = func(o sdk.Opened) error {
					at.Opened = o
					return f.Opened(o)
				}
				cut := false
				own.Output = func(rs []sdk.Record) error {
					for i, r := range rs {
						if cut = cut || lost(r.Position, at); cut {
							rs = rs[:i]
							break
						}
					}
					if len(rs) == 0 {
						return nil
					}
					return f.Output(rs)
				}
				return w.FollowProcess(ctx, id, p, from, own)
			},
		}
	}
}

// acknowledged is a follow whose output counts as acknowledged once it is delivered: for mutants whose positions are not the runtime's.
func acknowledged(f sdk.Follow) (own sdk.Follow, stop func()) {
	own = f
	own.Acks = nil
	stop = drain(f.Acks, func(sdk.Position) bool { return true })
	return own, stop
}

// translated is a follow whose acknowledgements are what to makes of them.
func translated(f sdk.Follow, to func(sdk.Position) sdk.Position) (own sdk.Follow, stop func()) {
	own = f
	if f.Acks == nil {
		return own, func() {}
	}
	acks := make(chan sdk.Position)
	own.Acks = acks
	over := make(chan struct{})
	end := drain(f.Acks, func(p sdk.Position) bool {
		select {
		case acks <- to(p):
			return true
		case <-over:
			return false
		}
	})
	return own, func() {
		close(over)
		end()
	}
}

// drain receives until stop is called; stop waits for it.
func drain(acks <-chan sdk.Position, each func(sdk.Position) bool) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case p, ok := <-acks:
				if !ok || !each(p) {
					return
				}
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}
