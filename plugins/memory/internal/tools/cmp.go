package tools

import (
	"bufio"
	"cmp"
	"io"
	"strconv"
)

// cmpFiles is cmp.
func cmpFiles(t *tool) int {
	given, args := t.options("slbn:i:", map[string]rune{"silent": 's', "quiet": 's', "verbose": 'l', "print-bytes": 'b', "bytes": 'n', "ignore-initial": 'i'}, 2)
	silent, list, limit, skip := false, false, int64(-1), int64(0)
	for _, o := range given {
		switch o.flag {
		case 's':
			silent = true
		case 'l':
			list = true
		case 'n', 'i':
			n, err := parseSize(o.value)
			if err != nil {
				t.die(2, "invalid number %s", quote(o.value))
			}
			if o.flag == 'n' {
				limit = n
			} else {
				skip = n
			}
		case 'b':
			t.die(2, "-b is not supported: use -l")
		}
	}
	if len(args) == 0 || len(args) > 4 {
		t.die(2, "two files are needed, not %d", len(args))
	}
	if len(args) == 1 {
		args = append(args, "-")
	}
	skips := [2]int64{skip, skip}
	for i, arg := range args[2:] {
		n, err := parseSize(arg)
		if err != nil {
			t.die(2, "invalid number %s", quote(arg))
		}
		skips[i] = n
	}
	var in [2]*bufio.Reader
	for i, name := range args[:2] {
		r, err := t.open(name)
		if err != nil {
			t.die(2, "%s: %s", name, reason(err))
		}
		defer r.Close()
		in[i] = bufio.NewReaderSize(r, 64<<10)
		if _, err := io.CopyN(io.Discard, in[i], skips[i]); err != nil && err != io.EOF {
			t.die(2, "%s: %s", name, reason(err))
		}
	}
	lines, status := 1, 0
	for at := int64(1); limit < 0 || at <= limit; at++ {
		a, errA := in[0].ReadByte()
		b, errB := in[1].ReadByte()
		for i, err := range []error{errA, errB} {
			if err != nil && err != io.EOF {
				t.die(2, "%s: %s", args[i], reason(err))
			}
		}
		switch {
		case errA != nil && errB != nil:
			return status
		case errA != nil || errB != nil:
			name := args[0]
			if errB != nil {
				name = args[1]
			}
			if !silent {
				t.complain("EOF on %s after byte %d", name, at-1)
			}
			return 1
		case a != b && silent:
			return 1
		case a != b && list:
			t.printf("%*d %3o %3o\n", 1, at, a, b)
			status = 1
		case a != b:
			unit := "byte"
			switch cmp.Or(t.getenv("LC_ALL"), t.getenv("LC_MESSAGES"), t.getenv("LANG")) {
			case "", "C", "POSIX": // where POSIX says what is printed
				unit = "char"
			}
			t.printf("%s %s differ: %s %s, line %d\n", args[0], args[1], unit, strconv.FormatInt(at, 10), lines)
			return 1
		}
		if a == '\n' {
			lines++
		}
	}
	return status
}
