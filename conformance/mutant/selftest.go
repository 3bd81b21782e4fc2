package mutant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-run/slipway/conformance"
)

// Options say how the suite is tested.
type Options struct {
	Self  []string // a program and its arguments that, followed by a name, "--" and a command, runs [Serve] with them
	Bases []Base   // each case is run on the first one where it passes without a mutant
	Only  []string // patterns of path.Match for mutants; empty: all
	Short bool     // shorter loops in the cases
	Jobs  int      // how many mutants at once; default 4
	// TimeScale multiplies all times, of which cases have ten times the usual ones here already; default 1.
	TimeScale float64
	Log       *slog.Logger
}

// Verdict is what came of a mutant.
type Verdict struct {
	Mutant string   `json:"mutant"`
	Doc    string   `json:"doc"`
	Rule   int      `json:"rule"`
	Kills  []Kill   `json:"kills"`
	Missed []string `json:"missed,omitempty"` // cases that should have failed, each with what came of it
	NotRun []string `json:"not_run,omitempty"`
}

// Killed tells whether every case that was run and should have failed did.
func (v Verdict) Killed() bool { return len(v.Kills) > 0 && len(v.Missed) == 0 }

// Kill is one case that failed on a mutant, as it should.
type Kill struct {
	Case string `json:"case"`
	Base string `json:"base"`
	What string `json:"what"` // the first failure's first line
}

// Matrix is what came of testing the suite.
type Matrix struct {
	Mutants  []Verdict         `json:"mutants"`
	Homes    map[string]string `json:"homes"`   // by case that passed without a mutant: the base
	NotRun   map[string]string `json:"not_run"` // by case that no base can run: why
	NotYet   []Missing         `json:"not_yet,omitempty"`
	Problems []string          `json:"problems"` // empty: the suite is worth what it says
	Seconds  float64           `json:"seconds"`
}

// ErrNoSuch says that [Options.Only] names no mutant.
var ErrNoSuch = errors.New("no mutant has such a name")

// Run lets the cases loose on the bases as they are, then on each mutant those that should kill it. report hears of each mutant as it
// comes, never two at once, and may be nil. An error means that nothing can be said.
func Run(ctx context.Context, opts Options, report func(Verdict)) (Matrix, error) {
	began := time.Now()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Jobs <= 0 {
		opts.Jobs = 4
	}
	if opts.TimeScale <= 0 {
		opts.TimeScale = 1
	}
	wanted := slices.DeleteFunc(All(), func(m Mutant) bool { return !opts.wants(m.ID) })
	if len(wanted) == 0 {
		return Matrix{}, fmt.Errorf("%w: %s", ErrNoSuch, strings.Join(opts.Only, ", "))
	}
	r := &run{opts: opts, home: make(map[string]*standing)}
	r.NotYet, r.NotRun = NotYet(), make(map[string]string)
	if len(opts.Only) == 0 {
		r.Problems = Check()
	}
	defer r.close()
	if err := r.clean(ctx, wanted); err != nil {
		return r.Matrix, err
	}
	if err := r.mutants(ctx, wanted, report); err != nil {
		return r.Matrix, err
	}
	r.conclude()
	r.Seconds = time.Since(began).Seconds()
	return r.Matrix, nil
}

func (o Options) wants(id string) bool {
	return len(o.Only) == 0 || slices.ContainsFunc(o.Only, func(pattern string) bool {
		ok, err := path.Match(pattern, id)
		return ok && err == nil
	})
}

type run struct {
	Matrix
	opts  Options
	bases []*standing
	home  map[string]*standing // of each case that passed without a mutant
}

func (r *run) close() {
	for _, s := range r.bases {
		s.close()
	}
}

// clean opens the bases and finds a home for each case: the first base on which it passes.
func (r *run) clean(ctx context.Context, wanted []Mutant) error {
	var cases []string
	for _, c := range conformance.Cases() {
		if len(r.opts.Only) == 0 || slices.ContainsFunc(wanted, func(m Mutant) bool { return slices.Contains(m.Killers, c.ID) }) {
			cases = append(cases, c.ID)
		}
	}
	names := []string{None}
	for _, m := range wanted {
		names = append(names, m.ID)
	}
	for _, b := range r.opts.Bases {
		if len(cases) == 0 {
			break
		}
		s, err := b.open(ctx, r.opts.Self, r.opts.Log, names)
		if err != nil {
			return err
		}
		if s == nil {
			continue
		}
		r.bases = append(r.bases, s)
		sum, err := conformance.Execute(ctx, s.target(None), r.options(cases, timeScale), nil)
		if err != nil {
			return err
		}
		settled := make(map[string]bool)
		for _, res := range sum.Results {
			if !slices.Contains(cases, res.ID) {
				continue
			}
			settled[res.ID] = res.Status == conformance.Pass || res.Status == conformance.Fail || res.Status == conformance.Error
			switch res.Status {
			case conformance.Pass:
				r.home[res.ID] = s
				delete(r.NotRun, res.ID)
			case conformance.Fail:
				if !res.Warning() {
					r.problem("%s fails on %s as it is: %s", res.ID, b.Name, firstLine(res))
				}
			case conformance.Error:
				r.problem("%s on %s as it is: the suite itself: %s", res.ID, b.Name, res.Note)
			default:
				r.NotRun[res.ID] = fmt.Sprintf("%s: %s", res.Status, res.Note)
			}
		}
		cases = slices.DeleteFunc(cases, func(id string) bool { return settled[id] })
	}
	return ctx.Err()
}

func (r *run) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// timeScale gives cases far more time than usual: much else runs beside them. hangScale gives them less, for what hangs in any case.
const (
	timeScale = 10
	hangScale = 0.25

	openTimeout    = 5 * time.Minute // also of a mutant that hangs: it has to be opened first
	cleanupTimeout = 5 * time.Minute // of one case, whatever its scale: what is left would be in the way of the next
)

func (r *run) options(cases []string, scale float64) conformance.Options {
	longer := func(d time.Duration) time.Duration { return time.Duration(float64(d) * max(1, r.opts.TimeScale)) }
	return conformance.Options{
		Profiles: conformance.Profiles(), Only: cases, Short: r.opts.Short, Small: true, Parallel: 4, TimeScale: scale * r.opts.TimeScale,
		OpenTimeout: longer(openTimeout), CleanupTimeout: longer(cleanupTimeout),
	}
}

// mutants runs all that are wanted.
func (r *run) mutants(ctx context.Context, wanted []Mutant, report func(Verdict)) error {
	r.Mutants = make([]Verdict, len(wanted))
	errs := make([]error, len(wanted))
	var mu sync.Mutex
	var wg sync.WaitGroup
	free := make(chan struct{}, r.opts.Jobs)
	for i, m := range wanted {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			if ctx.Err() != nil {
				return
			}
			v, err := r.mutant(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			r.Mutants[i], errs[i] = v, err
			if report != nil && err == nil {
				report(v)
			}
		})
	}
	wg.Wait()
	return errors.Join(ctx.Err(), errors.Join(errs...))
}

// mutant lets loose on a mutant the cases that should kill it, each at its home.
func (r *run) mutant(ctx context.Context, m Mutant) (Verdict, error) {
	v := Verdict{Mutant: m.ID, Doc: m.Doc, Rule: m.Rule}
	for _, id := range m.Killers {
		if r.home[id] == nil {
			v.NotRun = append(v.NotRun, id)
		}
	}
	for _, s := range r.bases {
		ids := slices.DeleteFunc(slices.Clone(m.Killers), func(id string) bool { return r.home[id] != s })
		if len(ids) == 0 {
			continue
		}
		scale := float64(timeScale)
		if m.Hangs {
			scale = hangScale
		}
		sum, err := conformance.Execute(ctx, s.target(m.ID), r.options(ids, scale), nil)
		if err != nil {
			return v, fmt.Errorf("mutant %q: %w", m.ID, err)
		}
		for _, res := range sum.Results {
			if slices.Contains(ids, res.ID) {
				v.add(m, s, res, r.opts.TimeScale)
			}
		}
		if err := s.alive(ctx); err != nil {
			return v, fmt.Errorf("%s does not answer after mutant %q: %w", s.Name, m.ID, err)
		}
	}
	return v, nil
}

func (v *Verdict) add(m Mutant, s *standing, res conformance.Result, scale float64) {
	c, _ := conformance.Find(res.ID)
	limit := c.Timeout
	if limit == 0 {
		limit = conformance.DefaultTimeout
	}
	switch {
	case res.Status != conformance.Fail:
		v.Missed = append(v.Missed, fmt.Sprintf("%s: %s %s", res.ID, res.Status, res.Note))
	case !m.Hangs && res.Seconds >= limit.Seconds()*timeScale*scale:
		v.Missed = append(v.Missed, fmt.Sprintf("%s: it took all its time, which says nothing: %s", res.ID, firstLine(res)))
	default:
		v.Kills = append(v.Kills, Kill{Case: res.ID, Base: s.Name, What: firstLine(res)})
	}
}

func firstLine(res conformance.Result) string {
	if len(res.Failures) == 0 {
		return res.Note
	}
	what, _, _ := strings.Cut(res.Failures[0].What, "\n")
	return what
}

// conclude says what is wrong with the suite.
func (r *run) conclude() {
	kills := make(map[string]bool)
	for _, v := range r.Mutants {
		for _, k := range v.Kills {
			kills[k.Case] = true
		}
		for _, missed := range v.Missed {
			r.problem("mutant %q, where %s, is not told from a good plugin by %s", v.Mutant, v.Doc, missed)
		}
	}
	r.Homes = make(map[string]string)
	for id, s := range r.home {
		r.Homes[id] = s.Name
		c, _ := conformance.Find(id)
		excused := slices.ContainsFunc(r.NotYet, func(n Missing) bool { return n.Case == id })
		if len(r.opts.Only) == 0 && c.Level == conformance.Must && !kills[id] && !excused {
			r.problem("case %s is required, passes on %s as it is, and has killed no mutant", id, s.Name)
		}
	}
	slices.Sort(r.Problems)
}
