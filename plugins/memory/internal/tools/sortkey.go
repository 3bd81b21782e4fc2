package tools

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"unicode"
)

func (k *sortKey) compare(a, b []byte) int {
	switch {
	case k.numeric:
		return compareNumbers(a, b)
	case k.general:
		return compareFloats(a, b)
	case k.human:
		x, y := humanUnit(a), humanUnit(b)
		return cmp.Or(cmp.Compare(x, y), compareNumbers(a, b))
	case k.version:
		return compareVersions(a, b)
	case k.month:
		return cmp.Compare(monthOf(a), monthOf(b))
	}
	if !k.fold && !k.dictionary && !k.printable {
		return bytes.Compare(a, b)
	}
	return bytes.Compare(k.shape(a), k.shape(b))
}

func (k *sortKey) shape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if k.dictionary && !(c == ' ' || c == '\t' || c >= 0x80 || isWord(rune(c)) && c != '_') || k.printable && (c < ' ' || c >= 0x7f) {
			continue
		}
		if k.fold && c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		out = append(out, c)
	}
	return out
}

// number splits the start of b: a sign, whole digits without leading zeros, and
// the digits of the fraction without trailing ones.
func number(b []byte) (negative bool, whole, fraction []byte) {
	for len(b) > 0 && blank(b[0]) {
		b = b[1:]
	}
	if len(b) > 0 && b[0] == '-' {
		negative, b = true, b[1:]
	}
	n := 0
	for n < len(b) && isDigit(b[n], 10) {
		n++
	}
	whole = bytes.TrimLeft(b[:n], "0")
	if b = b[n:]; len(b) > 0 && b[0] == '.' {
		for n = 1; n < len(b) && isDigit(b[n], 10); n++ {
		}
		fraction = bytes.TrimRight(b[1:n], "0")
	}
	if len(whole) == 0 && len(fraction) == 0 {
		negative = false
	}
	return negative, whole, fraction
}

// compareNumbers compares decimal numbers of any length.
func compareNumbers(a, b []byte) int {
	an, aw, af := number(a)
	bn, bw, bf := number(b)
	if an != bn {
		if an {
			return -1
		}
		return 1
	}
	c := cmp.Or(cmp.Compare(len(aw), len(bw)), bytes.Compare(aw, bw), bytes.Compare(af, bf))
	if an {
		return -c
	}
	return c
}

func compareFloats(a, b []byte) int {
	parse := func(b []byte) (float64, bool) {
		s := strings.TrimSpace(string(b))
		for end := len(s); end > 0; end-- {
			if v, err := strconv.ParseFloat(s[:end], 64); err == nil {
				return v, true
			}
		}
		return 0, false
	}
	x, xok := parse(a)
	y, yok := parse(b)
	if xok != yok {
		if !xok {
			return -1
		}
		return 1
	}
	return cmp.Compare(x, y)
}

// humanUnit is the power that a suffix such as K means, with the number's sign.
func humanUnit(b []byte) int {
	negative, whole, fraction := number(b)
	if len(whole) == 0 && len(fraction) == 0 {
		return 0
	}
	b = bytes.TrimLeft(b, " \t-0123456789.")
	unit := 0
	if len(b) > 0 {
		unit = strings.IndexByte("KMGTPEZY", byte(unicode.ToUpper(rune(b[0])))) + 1
	}
	if negative {
		return -unit
	}
	return unit
}

func monthOf(b []byte) int {
	b = bytes.TrimLeft(b, " \t")
	if len(b) < 3 {
		return 0
	}
	i := strings.Index("JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC", strings.ToUpper(string(b[:3])))
	if i < 0 || i%3 != 0 {
		return 0
	}
	return i/3 + 1
}

// compareVersions compares runs of digits as numbers and the rest as text,
// where ~ comes before everything, even the end, and letters before the rest.
func compareVersions(a, b []byte) int {
	rank := func(s []byte) int {
		switch {
		case len(s) == 0 || isDigit(s[0], 10):
			return 0
		case s[0] == '~':
			return -1
		case unicode.IsLetter(rune(s[0])):
			return int(s[0])
		}
		return int(s[0]) + 256
	}
	for len(a) > 0 || len(b) > 0 {
		for len(a) > 0 && !isDigit(a[0], 10) || len(b) > 0 && !isDigit(b[0], 10) {
			if c := cmp.Compare(rank(a), rank(b)); c != 0 {
				return c
			}
			a, b = a[min(1, len(a)):], b[min(1, len(b)):]
		}
		i, j := 0, 0
		for i < len(a) && isDigit(a[i], 10) {
			i++
		}
		for j < len(b) && isDigit(b[j], 10) {
			j++
		}
		x, y := bytes.TrimLeft(a[:i], "0"), bytes.TrimLeft(b[:j], "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), bytes.Compare(x, y)); c != 0 {
			return c
		}
		a, b = a[i:], b[j:]
	}
	return 0
}
