package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Repetition is what came of running one case many times.
type Repetition struct {
	ID        string  `json:"id"`
	Runs      int     `json:"runs"`      // that passed or failed
	Failed    int     `json:"failed"`    // of Runs
	Undecided int     `json:"undecided"` // that gave no answer; Last tells why
	Seconds   float64 `json:"seconds"`
	Slowest   float64 `json:"slowest"`        // run, in seconds
	Last      *Result `json:"last,omitempty"` // the last that did not pass; nil: all did
}

// Rate is the share of the runs that failed.
func (r Repetition) Rate() float64 {
	if r.Runs == 0 {
		return 0
	}
	return float64(r.Failed) / float64(r.Runs)
}

// Bound is what the rate of failures is below, with 95 % confidence, if each run fails by chance and by itself: the upper bound of Clopper
// and Pearson. Without a failure in 1000 runs it is just under 0.3 %. Without runs it is 1, for nothing is known.
func (r Repetition) Bound() float64 {
	if r.Failed >= r.Runs {
		return 1
	}
	low, high := 0.0, 1.0 // of the rate at which so few failures are as unlikely as 5 %
	for range 60 {
		if mid := (low + high) / 2; atMost(r.Failed, r.Runs, mid) > 0.05 {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// atMost is the probability of at most k of n, where each comes with the probability p.
func atMost(k, n int, p float64) float64 {
	logFact := func(n int) float64 { l, _ := math.Lgamma(float64(n) + 1); return l }
	sum := 0.0
	for i := range k + 1 {
		sum += math.Exp(logFact(n) - logFact(i) - logFact(n-i) + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

// Repeat runs one case n times against a target and tells how often it failed. Repeat of the case itself counts for nothing here. It
// goes on after failures, unless untilFail is set; report, which may be nil, hears of each run, never of two at once. So many run side by
// side as opts.Parallel says, none where the case is exclusive. An error means that the target could not be opened or closed, or that
// there is no such case. What the runs left on the worker is the case's failure, and counts as one more run.
func Repeat(ctx context.Context, target Target, opts Options, id string, n int, untilFail bool, report func(Result)) (Repetition, error) {
	rep := Repetition{ID: id}
	opts.Profiles, opts.Only, opts.Skip, opts.Expected = Profiles(), nil, nil, nil
	s, err := openSuite(ctx, target, opts)
	if err != nil {
		return rep, err
	}
	i := slices.IndexFunc(s.opts.Cases, func(c Case) bool { return c.ID == id })
	if i < 0 {
		return rep, errors.Join(fmt.Errorf("conformance: there is no case %q that could be repeated", id), s.close(ctx))
	}
	runCtx, cancel := s.budget(ctx)
	defer cancel()
	var mu sync.Mutex
	stop := false
	hear := func(r Result) {
		mu.Lock()
		defer mu.Unlock()
		rep.add(r)
		stop = stop || untilFail && r.Status == Fail || r.Status != Pass && r.Status != Fail
		if report != nil {
			report(r)
		}
	}
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return stop || runCtx.Err() != nil
	}

	kase := s.opts.Cases[i]
	atOnce := s.opts.Parallel
	if kase.Exclusive {
		atOnce = 1
	}
	var wg sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for attempt := 1; attempt <= n; attempt++ {
		free <- struct{}{}
		if over() {
			break
		}
		wg.Go(func() {
			defer func() { <-free }()
			hear(s.once(runCtx, kase, attempt))
		})
	}
	wg.Wait()
	if runCtx.Err() == nil {
		if left := s.run(runCtx, NothingLeft()); left.Status != Pass {
			hear(left)
		}
	}
	rep.Seconds = time.Since(s.started).Seconds()
	return rep, s.close(ctx)
}

// once runs a case once.
func (s *suite) once(ctx context.Context, kase Case, attempt int) Result {
	r := newResult(kase)
	if r.Status, r.Note = s.prejudge(ctx, kase); r.Status != "" {
		return r
	}
	s.attempt(ctx, kase, attempt, &r)
	r.Runs = 1
	r.Seconds = time.Since(r.Started).Seconds()
	return r
}

func (r *Repetition) add(res Result) {
	switch res.Status {
	case Pass:
		r.Runs++
	case Fail:
		r.Runs++
		r.Failed++
	default:
		r.Undecided++
	}
	r.Slowest = max(r.Slowest, res.Seconds)
	if res.Status != Pass {
		r.Last = &res
	}
}
