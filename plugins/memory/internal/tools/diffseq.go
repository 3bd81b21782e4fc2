package tools

import "math"

// sequences are two inputs as numbers, equal where lines count as equal, and what becomes of them: the lines of a that are gone, and
// those of b that are new.
type sequences struct {
	a, b      []int
	gone, new []bool
	check     func() // ends the tool where its time is over

	forward, backward []int // furthest x by diagonal, see middle
	zero              int   // index of diagonal 0
	enough            int   // cost at which the best split so far will do
}

// compareLines finds a short script from a to b, by Myers' algorithm with linear space.
func compareLines(a, b []int, check func()) *sequences {
	s := &sequences{
		a: a, b: b, gone: make([]bool, len(a)), new: make([]bool, len(b)), check: check,
		forward: make([]int, len(a)+len(b)+3), backward: make([]int, len(a)+len(b)+3), zero: len(b) + 1,
		enough: max(256, int(math.Sqrt(float64(len(a)+len(b))))*4),
	}
	s.compare(0, len(a), 0, len(b))
	s.settle()
	return s
}

func (s *sequences) compare(a0, a1, b0, b1 int) {
	for a0 < a1 && b0 < b1 && s.a[a0] == s.b[b0] {
		a0, b0 = a0+1, b0+1
	}
	for a0 < a1 && b0 < b1 && s.a[a1-1] == s.b[b1-1] {
		a1, b1 = a1-1, b1-1
	}
	switch {
	case a0 == a1:
		for i := b0; i < b1; i++ {
			s.new[i] = true
		}
	case b0 == b1:
		for i := a0; i < a1; i++ {
			s.gone[i] = true
		}
	default:
		x, y := s.middle(a0, a1, b0, b1)
		s.compare(a0, x, b0, y)
		s.compare(x, a1, y, b1)
	}
}

// middle is a point that a shortest script passes: searches from both corners meet there. A diagonal is x - y.
func (s *sequences) middle(a0, a1, b0, b1 int) (x, y int) {
	f, r := s.forward, s.backward
	at := func(v []int, d int) *int { return &v[s.zero+d] }
	low, high := a0-b1, a1-b0
	top, bottom := a0-b0, a1-b1
	fMin, fMax, rMin, rMax := top, top, bottom, bottom
	odd := (top-bottom)&1 != 0
	*at(f, top), *at(r, bottom) = a0, a1
	for cost := 1; ; cost++ {
		s.check()
		if fMin > low {
			fMin--
			*at(f, fMin-1) = -1
		} else {
			fMin++
		}
		if fMax < high {
			fMax++
			*at(f, fMax+1) = -1
		} else {
			fMax--
		}
		for d := fMax; d >= fMin; d -= 2 {
			x := max(*at(f, d-1)+1, *at(f, d+1))
			y := x - d
			for x < a1 && y < b1 && s.a[x] == s.b[y] {
				x, y = x+1, y+1
			}
			*at(f, d) = x
			if odd && rMin <= d && d <= rMax && *at(r, d) <= x {
				return x, y
			}
		}
		if rMin > low {
			rMin--
			*at(r, rMin-1) = math.MaxInt
		} else {
			rMin++
		}
		if rMax < high {
			rMax++
			*at(r, rMax+1) = math.MaxInt
		} else {
			rMax--
		}
		for d := rMax; d >= rMin; d -= 2 {
			x := min(*at(r, d-1), *at(r, d+1)-1)
			y := x - d
			for x > a0 && y > b0 && s.a[x-1] == s.b[y-1] {
				x, y = x-1, y-1
			}
			*at(r, d) = x
			if !odd && fMin <= d && d <= fMax && x <= *at(f, d) {
				return x, y
			}
		}
		if cost >= s.enough {
			best := -1
			for d := fMax; d >= fMin; d -= 2 {
				fx := min(*at(f, d), a1)
				if fy := fx - d; fy > b1 {
					fx, fy = b1+d, b1
				}
				if fx+fx-d > best && fx >= a0 && fx-d >= b0 {
					best, x, y = fx+fx-d, fx, fx-d
				}
			}
			return x, y
		}
	}
}

// settle moves each change as far down as it goes, so that what repeats changes at its end, where people expect it.
func (s *sequences) settle() {
	slide(s.gone, s.new, s.a)
	slide(s.new, s.gone, s.b)
}

// slide moves the runs of changed, which are about lines; other are the changes of the other side, which must stay where they are.
func slide(changed, other []bool, lines []int) {
	j := 0 // of the other side, where i is
	for i := 0; i < len(changed); {
		for j < len(other) && other[j] {
			j++
		}
		if !changed[i] {
			i, j = i+1, j+1
			continue
		}
		start := i
		for i < len(changed) && changed[i] {
			i++
		}
		for i < len(changed) && !changed[i] && lines[start] == lines[i] && !(j < len(other) && other[j]) {
			changed[start], changed[i] = false, true
			start, i, j = start+1, i+1, j+1
			for i < len(changed) && changed[i] { // it has met the next one
				i++
			}
			if j < len(other) && other[j] {
				break
			}
		}
	}
}

// change is a run of lines of a that become a run of lines of b; one of them may be empty.
type change struct{ a0, a1, b0, b1 int }

// changes are the script, in order.
func (s *sequences) changes() []change {
	var all []change
	for i, j := 0, 0; i < len(s.a) || j < len(s.b); {
		if !(i < len(s.a) && s.gone[i]) && !(j < len(s.b) && s.new[j]) {
			i, j = i+1, j+1
			continue
		}
		c := change{a0: i, b0: j}
		for i < len(s.a) && s.gone[i] {
			i++
		}
		for j < len(s.b) && s.new[j] {
			j++
		}
		c.a1, c.b1 = i, j
		all = append(all, c)
	}
	return all
}
