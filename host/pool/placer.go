package pool

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a Placer. The zero value is usable.
type Options struct {
	// Limits hold on every worker that has none of its own, each of them in
	// the chains that name its strategy.
	Limits Limits
	// Rand is where chance comes from; nil takes a random one. The Placer uses
	// it from one goroutine at a time. The same source and the same events
	// give the same choices.
	Rand rand.Source
	// WaitLimit bounds the wait of specs that say nothing; zero is no limit.
	WaitLimit time.Duration
	// MaxPassed is how often a waiter is passed by later ones before a worker
	// is reserved for it. Zero means DefaultMaxPassed, a negative one never.
	MaxPassed int
}

// Placer is a policy ready for use. It is safe for concurrent use.
type Placer struct {
	rules atomic.Pointer[rules]

	rand rand.Source // nil: any
	mu   sync.Mutex  // protects rand
	sums sync.Pool   // *[]int64: bytes at hand by slot
}

// NewPlacer returns a placer. The error is a *StrategyError.
func NewPlacer(p Policy, o Options) (*Placer, error) {
	p = p.withDefaults()
	if err := p.validate(); err != nil {
		return nil, err
	}
	out := &Placer{rand: o.Rand}
	out.rules.Store(newRules(p, o))
	return out, nil
}

// rules are what can be changed of a placer, as a whole.
type rules struct {
	policy    Policy
	limits    Limits
	waitLimit time.Duration
	maxPassed int
}

func newRules(p Policy, o Options) *rules {
	return &rules{p, o.Limits, o.WaitLimit, cmp.Or(o.MaxPassed, DefaultMaxPassed)}
}

// Choose returns the best worker for the spec, and leases nothing: to be sure
// of the place use Queue.Acquire. The error is a *NoWorkerError if no worker is
// compatible, a *FullError if those that are have no room.
func (p *Placer) Choose(x *Index, s Spec) (Choice, error) {
	q := p.query(x, s)
	x.mu.RLock()
	defer x.mu.RUnlock()
	best, compatible := p.best(x, q)
	if best == nil {
		return Choice{}, p.refusal(x, q, compatible != nil)
	}
	return p.choice(x, q, best), nil
}

// Verdict is what the policy says of one worker.
type Verdict struct {
	Worker string
	OK     bool
	Reason Reason
	Detail string  // for people
	Scores []Score // in the order of the chain; nil unless OK
	// Holders are what has the room of a worker that is full of volumes, where the host was asked why somebody waits; Detail names the first of them.
	Holders Holders `json:",omitempty"`
}

// Explain returns a verdict on every worker, those that are OK first and the
// best of them on top, then those that are full, then the others; by name where
// that leaves a tie. Choose would take one of those that are OK, or fail.
func (p *Placer) Explain(x *Index, s Spec) []Verdict {
	q := p.query(x, s)
	x.mu.RLock()
	defer x.mu.RUnlock()
	return p.explain(x, q)
}

func (p *Placer) explain(x *Index, q *query) []Verdict {
	sums := p.local(x, q)
	defer p.sums.Put(sums)
	type line struct {
		Verdict
		class int
		rank  rank
	}
	lines := make([]line, 0, len(x.byName))
	for _, e := range x.slots {
		if e == nil || !e.known {
			continue
		}
		r := q.judge(e)
		l := line{Verdict: Verdict{Worker: e.Name, OK: r == OK, Reason: r, Detail: q.detail(e, r)}, class: 2}
		if r.Full() {
			l.class = 1
		}
		if r == OK {
			l.class = 0
			l.rank = q.rank(e, at(*sums, e.slot), 0)
			l.Scores = q.scores(l.rank)
		}
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.class, b.class), b.rank.compare(&a.rank), cmp.Compare(a.Worker, b.Worker))
	})
	out := make([]Verdict, len(lines))
	for i, l := range lines {
		out[i] = l.Verdict
	}
	return out
}

// query says what the policy makes of s on x. The caller goes on owning s.
func (p *Placer) query(x *Index, s Spec) *query {
	s.Kind = cmp.Or(s.Kind, Build)
	s.Volumes, s.Resources = max(s.Volumes, 0), s.Resources.positive()
	q := &query{index: x, spec: s, exhausted: maps.Clone(s.Exhausted)}
	for _, in := range s.Inputs {
		if d := x.digest(in.Key); !slices.Contains(q.keys, d) {
			q.keys = append(q.keys, d)
		}
	}
	q.obey(p.rules.Load())
	return q
}

// obey takes the chain and the limits of the rules.
func (q *query) obey(r *rules) {
	q.chain, q.limits = r.policy.chain(q.spec.Kind), Limits{}
	for _, st := range q.chain {
		switch st {
		case LimitActiveContainers:
			q.limits.Containers = r.limits.Containers
		case LimitActiveTasks:
			q.limits.Tasks = r.limits.Tasks
		case LimitActiveVolumes:
			q.limits.Volumes = r.limits.Volumes
		}
	}
}

// best returns the best worker that takes q, nil if none does, and some worker
// that would if it had room, nil if none would. The index is locked.
func (p *Placer) best(x *Index, q *query) (best, compatible *entry) {
	sums := p.local(x, q)
	defer p.sums.Put(sums)
	seed := p.chance()
	var top rank
	for _, e := range x.slots {
		if e == nil {
			continue
		}
		r := q.judge(e)
		if r != OK {
			if compatible == nil && r.Full() {
				compatible = e
			}
			continue
		}
		k := q.rank(e, at(*sums, e.slot), seed)
		if best == nil || k.compare(&top) > 0 {
			best, top = e, k
		}
	}
	if best != nil {
		compatible = best
	}
	return best, compatible
}

// choice describes taking e.
func (p *Placer) choice(x *Index, q *query, e *entry) Choice {
	var local int64
	if slices.Contains(q.chain, VolumeLocality) {
		local = x.local(e, q.spec.Inputs)
	}
	return Choice{Worker: e.Name, Scores: q.scores(q.rank(e, local, 0))}
}

// refusal is the error for a spec that no worker takes.
func (p *Placer) refusal(x *Index, q *query, full bool) error {
	verdicts := p.explain(x, q)
	if full {
		return &FullError{Spec: q.spec.clone(), Reasons: verdicts}
	}
	return &NoWorkerError{Spec: q.spec.clone(), Reasons: verdicts}
}

// local returns the bytes at hand by slot, empty where the chain does not care.
// It goes back to p.sums after use.
func (p *Placer) local(x *Index, q *query) *[]int64 {
	sums, _ := p.sums.Get().(*[]int64)
	if sums == nil {
		sums = new([]int64)
	}
	*sums = (*sums)[:0]
	if len(q.spec.Inputs) == 0 || !slices.Contains(q.chain, VolumeLocality) {
		return sums
	}
	*sums = slices.Grow(*sums, len(x.slots))[:len(x.slots)]
	clear(*sums)
	x.addLocal(*sums, q.spec.Inputs)
	return sums
}

func at(sums []int64, slot uint32) int64 {
	if int(slot) < len(sums) {
		return sums[slot]
	}
	return 0
}

func (p *Placer) chance() uint64 {
	if p.rand == nil {
		return rand.Uint64()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rand.Uint64()
}

// rank orders the workers that take a spec.
type rank struct {
	own    bool // the team's own come before shared ones
	scores [maxChain]int64
	chance uint64
}

func (q *query) rank(e *entry, local int64, seed uint64) rank {
	k := rank{own: e.Team != ""}
	for i, s := range q.chain {
		k.scores[i] = s.score(q, e, local)
	}
	if seed != 0 {
		k.chance = scramble(seed + uint64(e.slot))
	}
	return k
}

// compare is positive if k is the better.
func (k *rank) compare(o *rank) int {
	if k.own != o.own {
		if k.own {
			return 1
		}
		return -1
	}
	for i := range k.scores {
		if c := cmp.Compare(k.scores[i], o.scores[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(k.chance, o.chance)
}

func (q *query) scores(k rank) []Score {
	out := make([]Score, len(q.chain))
	for i, s := range q.chain {
		out[i] = Score{Strategy: s, Value: k.scores[i]}
	}
	return out
}

// scramble spreads consecutive numbers evenly (the finisher of splitmix64), so
// that one draw shuffles all workers and the scan needs no sort.
func scramble(v uint64) uint64 {
	v *= 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}
