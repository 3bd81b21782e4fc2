package tools

import (
	"io"
	"os"
	"strconv"
	"strings"
)

// dd copies blocks.
func dd(t *tool) int {
	in, out := "-", "-"
	ibs, obs, count, skip, seek := int64(512), int64(512), int64(-1), int64(0), int64(0)
	status, keep, excl := "", false, false
	number := func(name, value string) int64 {
		product := int64(1)
		for part := range strings.SplitSeq(value, "x") {
			n, err := parseSize(strings.TrimSuffix(part, "w"))
			if err != nil {
				t.die(1, "invalid number: %s for %s", quote(value), name)
			}
			product *= n
		}
		return product
	}
	for _, arg := range t.Args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok {
			t.die(1, "unrecognized operand %s", quote(arg))
		}
		switch name {
		case "if":
			in = value
		case "of":
			out = value
		case "bs":
			ibs = number(name, value)
			obs = ibs
		case "ibs":
			ibs = number(name, value)
		case "obs":
			obs = number(name, value)
		case "count":
			count = number(name, value)
		case "skip", "iseek":
			skip = number(name, value)
		case "seek", "oseek":
			seek = number(name, value)
		case "status":
			status = value
		case "conv":
			for c := range strings.SplitSeq(value, ",") {
				switch c {
				case "notrunc":
					keep = true
				case "excl":
					excl = true
				case "fsync", "fdatasync":
				default:
					t.die(1, "conv=%s is not supported", c)
				}
			}
		case "iflag", "oflag":
			if value != "fullblock" {
				t.die(1, "%s=%s is not supported", name, value)
			}
		default:
			t.die(1, "unrecognized operand %s", quote(arg))
		}
	}
	if ibs < 1 || obs < 1 || ibs > 1<<30 {
		t.die(1, "invalid block size")
	}
	r, err := t.open(in)
	if err != nil {
		t.die(1, "failed to open %s: %s", quote(in), reason(err))
	}
	defer r.Close()
	w := io.Writer(t.out)
	if out != "-" {
		flag := os.O_TRUNC
		if keep || seek > 0 {
			flag = 0
		}
		if excl {
			flag |= os.O_EXCL
		}
		f, err := t.create(out, flag)
		if err != nil {
			t.die(1, "failed to open %s: %s", quote(out), reason(err))
		}
		defer f.Close()
		if s, ok := f.(interface {
			io.Seeker
			Truncate(int64) error
		}); ok && seek > 0 {
			if !keep {
				s.Truncate(seek * obs)
			}
			s.Seek(seek*obs, io.SeekStart)
		}
		w = f
	}
	if _, err := io.CopyN(io.Discard, r, skip*ibs); err != nil && err != io.EOF {
		t.die(1, "%s: %s", in, reason(err))
	}
	block := make([]byte, ibs)
	full, part, bytes := int64(0), int64(0), int64(0)
	for count < 0 || full+part < count {
		n, err := io.ReadFull(r, block)
		if n > 0 {
			if _, werr := w.Write(block[:n]); werr != nil {
				t.die(1, "error writing %s: %s", quote(out), reason(werr))
			}
			bytes += int64(n)
			if int64(n) == ibs {
				full++
			} else {
				part++
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			t.die(1, "error reading %s: %s", quote(in), reason(err))
		}
	}
	if status != "none" {
		t.out.Flush()
		records := strconv.FormatInt(full, 10) + "+" + strconv.FormatInt(part, 10) + " records "
		io.WriteString(t.Stderr, records+"in\n"+records+"out\n")
		if status != "noxfer" {
			io.WriteString(t.Stderr, strconv.FormatInt(bytes, 10)+" bytes copied\n")
		}
	}
	return t.status
}
