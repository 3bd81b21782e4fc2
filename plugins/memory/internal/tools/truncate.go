package tools

import (
	"os"
	"strconv"
	"strings"
)

// truncate makes files shorter or longer; what they grow by are holes.
func truncate(t *tool) int {
	given, args := t.options("cs:r:o", map[string]rune{"no-create": 'c', "size": 's', "reference": 'r'}, 1)
	noCreate, how, size, sized := false, byte(0), int64(0), false
	base := int64(-1)
	for _, o := range given {
		switch o.flag {
		case 'c':
			noCreate = true
		case 's':
			text := strings.TrimSpace(o.value)
			if text != "" && strings.IndexByte("+-<>/%", text[0]) >= 0 {
				how, text = text[0], text[1:]
			}
			n, err := parseSize(text)
			if err != nil || (how == '/' || how == '%') && n == 0 {
				t.die(1, "invalid number: %s", quote(o.value))
			}
			size, sized = n, true
		case 'r':
			info, err := t.FS.Stat(t.Dir, o.value)
			if err != nil {
				t.die(1, "cannot stat %s: %s", quote(o.value), reason(err))
			}
			base = info.Size()
		case 'o':
			t.die(1, "-o is not supported: give a size in bytes")
		}
	}
	if !sized && base < 0 {
		t.die(1, "you must specify either '--size' or '--reference'")
	}
	if sized && base >= 0 && how == 0 {
		t.die(1, "you must specify a relative '--size' with '--reference'")
	}
	if len(args) == 0 {
		t.die(1, "missing file operand")
	}
	for _, name := range args {
		flag := os.O_WRONLY
		if !noCreate {
			flag |= os.O_CREATE
		}
		f, err := t.FS.Open(t.Dir, name, flag, 0o666&^t.Umask)
		if err != nil {
			if _, missing := t.FS.Stat(t.Dir, name); !noCreate || missing == nil {
				t.complain("cannot open %s for writing: %s", quote(name), reason(err))
			}
			continue
		}
		from := base
		if info, err := f.Stat(); err == nil && base < 0 {
			from = info.Size()
		}
		if err := f.Truncate(resize(from, how, size, sized)); err != nil {
			t.complain("failed to truncate %s: %s", quote(name), reason(err))
		}
		f.Close()
	}
	return t.status
}

// resize is the size that a file of a size gets.
func resize(from int64, how byte, size int64, sized bool) int64 {
	switch {
	case !sized:
		return from
	case how == '+':
		return from + size
	case how == '-':
		return max(from-size, 0)
	case how == '<':
		return min(from, size)
	case how == '>':
		return max(from, size)
	case how == '/':
		return from / size * size
	case how == '%':
		return (from + size - 1) / size * size
	}
	return size
}

// parseSize reads a number of bytes as GNU's tools write it: K, M, G, T and P are powers of 1024, KB of 1000, KiB of 1024 again.
func parseSize(s string) (int64, error) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	n, err := strconv.ParseInt(s[:digits], 10, 64)
	if digits == 0 && s != "" {
		n, err = 1, nil
	}
	unit := s[digits:]
	factor := int64(1)
	if unit != "" {
		power := strings.IndexByte("KMGTP", unit[0]&^0x20) + 1
		base := int64(1024)
		switch rest := unit[1:]; {
		case unit == "b":
			return n * 512, err
		case unit == "c":
			return n, err
		case power == 0 || rest != "" && rest != "B" && rest != "iB":
			return 0, strconv.ErrSyntax
		case rest == "B":
			base = 1000
		}
		for range power {
			factor *= base
		}
	}
	if err == nil && n > 1<<62/factor {
		err = strconv.ErrRange
	}
	return n * factor, err
}
