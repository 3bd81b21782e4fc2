package shell

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// readArgs are read's, parsed.
type readArgs struct {
	raw, array  bool
	delim       byte
	count       int // -1: until the delimiter
	exact       bool
	timeout     time.Duration
	hasTimeout  bool
	names       []string
	descriptor  string // empty: stdin
	needsOwn    bool   // an option that the interpreter lacks
	unsupported string
}

func parseRead(args []string) readArgs {
	a := readArgs{delim: '\n', count: -1}
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			args = args[1:]
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			break
		}
		args = args[1:]
		for rest := arg[1:]; rest != ""; {
			flag := rest[0]
			rest = rest[1:]
			switch flag {
			case 'r':
				a.raw = true
				continue
			case 's', 'e':
				continue
			}
			if strings.IndexByte("apdntNiu", flag) < 0 {
				a.unsupported = "-" + string(rune(flag))
				return a
			}
			value := rest
			rest = ""
			if value == "" {
				if len(args) == 0 {
					a.unsupported = "-" + string(rune(flag)) + " without a value"
					return a
				}
				value, args = args[0], args[1:]
			}
			a.value(flag, value)
		}
	}
	if !a.array {
		a.names = args
	}
	return a
}

func (a *readArgs) value(flag byte, value string) {
	switch flag {
	case 'a':
		a.array, a.names = true, []string{value}
	case 'p': // a prompt is for terminals
	case 'd':
		a.needsOwn, a.delim = true, 0
		if value != "" {
			a.delim = value[0]
		}
	case 'n', 'N':
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			a.unsupported = fmt.Sprintf("-%c %q", flag, value)
		}
		a.needsOwn, a.count, a.exact = true, n, flag == 'N'
	case 't':
		s, err := strconv.ParseFloat(value, 64)
		if err != nil || s < 0 {
			a.unsupported = fmt.Sprintf("-t %q", value)
		}
		a.needsOwn, a.hasTimeout, a.timeout = true, true, time.Duration(s*float64(time.Second))
	case 'u':
		n, err := strconv.Atoi(value)
		switch {
		case err != nil || n == 1 || n == 2 || n < 0:
			a.unsupported = "-u " + value
		case n > 2:
			a.needsOwn, a.descriptor = true, value
		}
	case 'i':
	}
}

// simpleRead is a read that the interpreter does itself, without what it would
// print as a prompt. It knows no separators but blanks.
func simpleRead(args []string, ifs string) ([]string, bool) {
	a := parseRead(args[1:])
	if a.unsupported != "" || a.needsOwn || strings.Trim(ifs, " \t\n") != "" && (a.array || len(a.names) > 1) {
		return nil, false
	}
	out := []string{"read"}
	if a.raw {
		out = append(out, "-r")
	}
	if a.array {
		out = append(out, "-a")
	}
	return append(append(out, "--"), a.names...), true
}

func (u *unit) read(ctx context.Context, hc interp.HandlerContext, args []string) error {
	a := parseRead(args)
	if a.unsupported != "" {
		return refuse(hc, 2, "read: %s is not supported", a.unsupported)
	}
	for _, name := range a.names {
		if !syntax.ValidName(name) {
			return refuse(hc, 1, "read: %q: not a valid identifier", name)
		}
	}
	from := hc.Stdin
	if a.descriptor != "" {
		o, err := u.descriptor(hc, a.descriptor)
		if err != nil || o.r == nil {
			return refuse(hc, 1, "read: %s: %v", a.descriptor, errDescriptor)
		}
		from = o.r
	}
	in, ok := from.(*os.File)
	if ok && in == nil || from == nil {
		return status(1)
	}
	if ok {
		if a.hasTimeout && a.timeout > 0 {
			in.SetReadDeadline(time.Now().Add(a.timeout))
			defer in.SetReadDeadline(time.Time{})
		}
		stop := context.AfterFunc(ctx, func() { in.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
	}
	text, err := a.input(from)
	code := 0
	switch {
	case os.IsTimeout(err):
		code = 128 + 14
	case err != nil:
		code = 1
	}
	if err := a.store(ctx, hc, text); err != nil {
		return err
	}
	return status(code)
}

// separators are what IFS says.
func separators(hc interp.HandlerContext) string {
	if v := hc.Env.Get("IFS"); v.IsSet() {
		return v.String()
	}
	return " \t\n"
}

// input reads byte by byte: what comes after is for the next command.
func (a readArgs) input(in io.Reader) (string, error) {
	var b []byte
	escaped := false
	for a.count < 0 || utf8.RuneCount(b) < a.count || !utf8.Valid(b) && len(b) < a.count*utf8.UTFMax {
		var c [1]byte
		if _, err := io.ReadFull(in, c[:]); err != nil {
			return string(b), err
		}
		switch {
		case escaped:
			escaped = false
			if c[0] == '\n' {
				b = b[:len(b)-1]
				continue
			}
		case c[0] == a.delim && !a.exact:
			return string(b), nil
		case c[0] == '\\' && !a.raw:
			escaped = true
		}
		b = append(b, c[0])
	}
	return string(b), nil
}

func (a readArgs) store(ctx context.Context, hc interp.HandlerContext, text string) error {
	ifs := separators(hc)
	switch {
	case a.array:
		words := readFields(text, ifs, -1, a.raw)
		return hc.Builtin(ctx, []string{"eval", a.names[0] + "=(" + quoted(words) + ")"})
	case len(a.names) == 0:
		return assign(ctx, hc, "REPLY", text)
	case a.exact:
		return assign(ctx, hc, a.names[0], text)
	}
	values := readFields(text, ifs, len(a.names), a.raw)
	var pairs []string
	for i, name := range a.names {
		value := ""
		if i < len(values) {
			value = values[i]
		}
		pairs = append(pairs, name, value)
	}
	return assign(ctx, hc, pairs...)
}
