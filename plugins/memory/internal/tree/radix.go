package tree

import "sync/atomic"

const (
	radixBits = 5
	radixFan  = 1 << radixBits
)

// counted is a value that a radix holds: it counts its holders and gives its
// charge back when the last one releases it. The zero value means "nothing".
type counted interface {
	comparable
	retain()
	release(*Budget)
}

// radix is a persistent sparse array. Copying the struct after retain gives an
// independent array that shares its pages until one of the two is written.
type radix[V counted] struct {
	root   *page[V]
	height int // levels above the leaves
}

// page is a node: a leaf has vals, the others have kids; both are at most
// radixFan long and no longer than needed.
type page[V counted] struct {
	refs atomic.Int32
	kids []*page[V]
	vals []V
}

func newPage[V counted](b *Budget) *page[V] {
	p := &page[V]{}
	b.force(pageCost)
	p.refs.Store(1)
	return p
}

func (r *radix[V]) retain() {
	if r.root != nil {
		r.root.refs.Add(1)
	}
}

func (r *radix[V]) drop(b *Budget) {
	if r.root != nil {
		r.root.drop(b)
	}
	*r = radix[V]{}
}

// get returns the value at key, or the zero value.
func (r *radix[V]) get(key uint64) (v V) {
	p := r.root
	if p == nil || !r.holds(key) {
		return v
	}
	for level := r.height; level > 0; level-- {
		i := digit(key, level)
		if i >= len(p.kids) || p.kids[i] == nil {
			return v
		}
		p = p.kids[i]
	}
	if i := digit(key, 0); i < len(p.vals) {
		return p.vals[i]
	}
	return v
}

// next returns the first value at or after key, and its key.
func (r *radix[V]) next(key uint64) (at uint64, v V, ok bool) {
	if r.root == nil || !r.holds(key) {
		return 0, v, false
	}
	return r.root.next(r.height, key)
}

func (p *page[V]) next(level int, key uint64) (at uint64, v V, ok bool) {
	if level == 0 {
		for i := key; i < uint64(len(p.vals)); i++ {
			if p.vals[i] != v {
				return i, p.vals[i], true
			}
		}
		return 0, v, false
	}
	span := uint64(1) << uint(radixBits*level) // keys below one slot
	for i := key / span; i < uint64(len(p.kids)); i++ {
		if p.kids[i] == nil {
			continue
		}
		if at, v, ok := p.kids[i].next(level-1, max(key, i*span)-i*span); ok {
			return i*span + at, v, true
		}
	}
	return 0, v, false
}

// slot returns the place of key's value, made if missing, in pages that nobody
// else holds. It is valid until the next call on r.
func (r *radix[V]) slot(b *Budget, key uint64) *V {
	if r.root == nil {
		r.root = newPage[V](b)
	}
	for !r.holds(key) {
		p := newPage[V](b)
		p.kids = append(p.kids, r.root)
		r.root = p
		r.height++
	}
	at := &r.root
	for level := r.height; level > 0; level-- {
		p := (*at).own(b)
		*at = p
		i := digit(key, level)
		for len(p.kids) <= i {
			p.kids = append(p.kids, nil)
		}
		if p.kids[i] == nil {
			p.kids[i] = newPage[V](b)
		}
		at = &p.kids[i]
	}
	p := (*at).own(b)
	*at = p
	i := digit(key, 0)
	for len(p.vals) <= i {
		var none V
		p.vals = append(p.vals, none)
	}
	return &p.vals[i]
}

// remove releases key's value, if there is one.
func (r *radix[V]) remove(b *Budget, key uint64) {
	var none V
	if r.get(key) == none {
		return
	}
	r.root = r.root.cut(b, r.height, key, key+1)
	if r.root == nil {
		r.height = 0
	}
}

// removeFrom releases the values at key and everywhere after it.
func (r *radix[V]) removeFrom(b *Budget, key uint64) {
	if r.root == nil || !r.holds(key) {
		return
	}
	r.root = r.root.cut(b, r.height, key, 1<<uint(radixBits*(r.height+1)))
	if r.root == nil {
		r.height = 0
	}
}

func (r *radix[V]) holds(key uint64) bool {
	return key>>uint(radixBits*(r.height+1)) == 0
}

func digit(key uint64, level int) int {
	return int(key>>uint(radixBits*level)) & (radixFan - 1)
}

// own returns a page with p's content that nobody else holds, in exchange for
// the caller's hold on p.
func (p *page[V]) own(b *Budget) *page[V] {
	if p.refs.Load() == 1 {
		return p
	}
	q := newPage[V](b)
	if p.kids != nil {
		q.kids = append(q.kids, p.kids...)
		for _, k := range q.kids {
			if k != nil {
				k.refs.Add(1)
			}
		}
	}
	if p.vals != nil {
		var none V
		q.vals = append(q.vals, p.vals...)
		for _, v := range q.vals {
			if v != none {
				v.retain()
			}
		}
	}
	p.drop(b)
	return q
}

func (p *page[V]) drop(b *Budget) {
	if p.refs.Add(-1) > 0 {
		return
	}
	b.give(pageCost)
	var none V
	for _, k := range p.kids {
		if k != nil {
			k.drop(b)
		}
	}
	for _, v := range p.vals {
		if v != none {
			v.release(b)
		}
	}
}

// cut removes the keys of [from, to), which are relative to p, and returns
// what is left of p, nil for nothing.
func (p *page[V]) cut(b *Budget, level int, from, to uint64) *page[V] {
	span := uint64(1) << uint(radixBits*level) // keys below one slot
	if from == 0 && to >= span*radixFan {
		p.drop(b)
		return nil
	}
	p = p.own(b)
	if level == 0 {
		var none V
		for i := from; i < to && i < uint64(len(p.vals)); i++ {
			if v := p.vals[i]; v != none {
				p.vals[i] = none
				v.release(b)
			}
		}
		p.vals = trim(p.vals)
		return p.orNil(b)
	}
	for i := from / span; i < uint64(len(p.kids)) && i*span < to; i++ {
		k := p.kids[i]
		if k == nil {
			continue
		}
		lo, hi := uint64(0), span
		if from > i*span {
			lo = from - i*span
		}
		if to < (i+1)*span {
			hi = to - i*span
		}
		p.kids[i] = k.cut(b, level-1, lo, hi)
	}
	p.kids = trim(p.kids)
	return p.orNil(b)
}

func (p *page[V]) orNil(b *Budget) *page[V] {
	if len(p.kids) > 0 || len(p.vals) > 0 {
		return p
	}
	p.drop(b)
	return nil
}

// trim cuts zero values off the end.
func trim[T comparable](s []T) []T {
	var none T
	for len(s) > 0 && s[len(s)-1] == none {
		s = s[:len(s)-1]
	}
	return s
}
