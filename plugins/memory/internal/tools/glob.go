package tools

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// matchGlob matches a whole name against a shell pattern. * and ? match
// slashes too, as find -path wants. A bad pattern matches itself.
func matchGlob(pattern, name string, fold bool) bool {
	if fold {
		pattern, name = strings.ToLower(pattern), strings.ToLower(name)
	}
	// Where to go on when a * must take one more character.
	star, retry := -1, 0
	p, n := 0, 0
	for n < len(name) || p < len(pattern) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				star, retry = p, n
				p++
				continue
			}
			if n < len(name) {
				if np, nn, ok := matchOne(pattern, p, name, n); ok {
					p, n = np, nn
					continue
				}
			}
		}
		if star < 0 || retry >= len(name) {
			return false
		}
		_, size := utf8.DecodeRuneInString(name[retry:])
		retry += size
		p, n = star+1, retry
	}
	return true
}

// matchOne matches one character.
func matchOne(pattern string, p int, name string, n int) (np, nn int, ok bool) {
	r, size := utf8.DecodeRuneInString(name[n:])
	switch c := pattern[p]; {
	case c == '?':
		return p + 1, n + size, true
	case c == '\\' && p+1 < len(pattern):
		p++
	case c == '[':
		if end, in, valid := matchSet(pattern, p, r); valid {
			return end, n + size, in
		}
	}
	want, wsize := utf8.DecodeRuneInString(pattern[p:])
	return p + wsize, n + size, want == r && pattern[p:p+wsize] == name[n:n+size]
}

func matchSet(pattern string, p int, r rune) (end int, in, valid bool) {
	p++
	negate := p < len(pattern) && (pattern[p] == '!' || pattern[p] == '^')
	if negate {
		p++
	}
	for first := true; p < len(pattern); first = false {
		if pattern[p] == ']' && !first {
			return p + 1, in != negate, true
		}
		if rest, ok := strings.CutPrefix(pattern[p:], "[:"); ok {
			if name, _, closed := strings.Cut(rest, ":]"); closed {
				in = in || inClass(name, r)
				p += len(name) + 4
				continue
			}
		}
		if pattern[p] == '\\' && p+1 < len(pattern) {
			p++
		}
		low, size := utf8.DecodeRuneInString(pattern[p:])
		p += size
		high := low
		if p+1 < len(pattern) && pattern[p] == '-' && pattern[p+1] != ']' {
			high, size = utf8.DecodeRuneInString(pattern[p+1:])
			p += 1 + size
		}
		in = in || r >= low && r <= high
	}
	return 0, false, false
}

// inClass says whether a character is of a POSIX class.
func inClass(name string, r rune) bool {
	switch name {
	case "alpha":
		return unicode.IsLetter(r)
	case "digit":
		return r >= '0' && r <= '9'
	case "alnum":
		return unicode.IsLetter(r) || unicode.IsNumber(r)
	case "upper":
		return unicode.IsUpper(r)
	case "lower":
		return unicode.IsLower(r)
	case "space":
		return strings.ContainsRune(" \t\n\v\f\r", r)
	case "blank":
		return r == ' ' || r == '\t'
	case "punct":
		return r > ' ' && r < 0x7f && !isWord(r) || r == '_'
	case "cntrl":
		return unicode.IsControl(r)
	case "xdigit":
		return r < 0x80 && isDigit(byte(r), 16)
	case "print":
		return unicode.IsPrint(r)
	case "graph":
		return unicode.IsGraphic(r) && r != ' '
	}
	return false
}
