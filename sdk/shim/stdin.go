package shim

// ahead is the stdin that was read and not taken yet (rule 7). The zero value is at position 0.
type ahead struct {
	bytes []byte
	taken int64 // position of bytes[0]
	sent  int64 // position up to which this relay has got them
	most  int64 // up to which any has
	end   bool  // the source is at its end
	told  bool  // this relay knows
}

// resume begins on a new relay, whose keeper has taken that much. false: it cannot have.
func (a *ahead) resume(taken int64) bool {
	if !a.take(taken) || taken < a.taken {
		return false
	}
	a.sent, a.told = taken, false
	return true
}

// take drops what was taken. false: nobody can have taken so much.
func (a *ahead) take(total int64) bool {
	if total > a.most {
		return false
	}
	if n := total - a.taken; n > 0 {
		a.bytes, a.taken = a.bytes[n:], total
	}
	return true
}

// next is what to send now, at most n bytes.
func (a *ahead) next(n int) []byte {
	p := a.bytes[a.sent-a.taken:]
	p = p[:min(n, len(p))]
	a.sent += int64(len(p))
	a.most = max(a.most, a.sent)
	return p
}
