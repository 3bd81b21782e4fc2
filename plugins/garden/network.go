package garden

import (
	"net"
	"net/netip"
	"slices"

	"code.cloudfoundry.org/garden"
)

// span is a range of addresses, both ends included.
type span struct{ from, to netip.Addr }

// netOut makes the rules of what a container with a network may reach: what is allowed, or everything, without what is denied. A server may forbid more.
func (c Config) netOut() []garden.NetOutRule {
	allowed := spans(c.AllowNetworks)
	if len(allowed) == 0 {
		allowed = spans([]string{"0.0.0.0/0", "::/0"})
	}
	for _, denied := range spans(c.DenyNetworks) {
		var left []span
		for _, a := range allowed {
			left = append(left, a.without(denied)...)
		}
		allowed = left
	}
	slices.SortFunc(allowed, func(a, b span) int { return a.from.Compare(b.from) })
	var v4, v6 []garden.IPRange
	for _, a := range allowed {
		r := garden.IPRange{Start: net.IP(a.from.AsSlice()), End: net.IP(a.to.AsSlice())}
		if a.from.Is4() {
			v4 = append(v4, r)
		} else {
			v6 = append(v6, r)
		}
	}
	rules := []garden.NetOutRule{}
	if len(v4) > 0 {
		rules = append(rules, garden.NetOutRule{Protocol: garden.ProtocolAll, Networks: v4})
	}
	// Servers that know no IPv6 refuse such rules, and those that have it drop what no rule allows: only who names such networks gets them.
	if len(v6) > 0 && slices.ContainsFunc(slices.Concat(c.AllowNetworks, c.DenyNetworks), func(s string) bool { return netip.MustParsePrefix(s).Addr().Is6() }) {
		rules = append(rules, garden.NetOutRule{Protocol: garden.ProtocolAll, Networks: v6})
	}
	return rules
}

func spans(networks []string) []span {
	var all []span
	for _, text := range networks {
		p := netip.MustParsePrefix(text).Masked() // checked with the configuration
		last := p.Addr().AsSlice()
		for bit := p.Bits(); bit < len(last)*8; bit++ {
			last[bit/8] |= 1 << (7 - bit%8)
		}
		to, _ := netip.AddrFromSlice(last)
		all = append(all, span{p.Addr(), to})
	}
	return all
}

// without gives what is left of s.
func (s span) without(d span) []span {
	if d.from.Is4() != s.from.Is4() || d.to.Less(s.from) || s.to.Less(d.from) {
		return []span{s}
	}
	var left []span
	if s.from.Less(d.from) {
		left = append(left, span{s.from, d.from.Prev()})
	}
	if d.to.Less(s.to) {
		left = append(left, span{d.to.Next(), s.to})
	}
	return left
}
