package tools

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"strings"
)

func md5sum(t *tool) int    { return t.sums(md5.New) }
func sha224sum(t *tool) int { return t.sums(sha256.New224) }
func sha384sum(t *tool) int { return t.sums(sha512.New384) }
func sha1sum(t *tool) int   { return t.sums(sha1.New) }
func sha256sum(t *tool) int { return t.sums(sha256.New) }
func sha512sum(t *tool) int { return t.sums(sha512.New) }

func (t *tool) sums(algorithm func() hash.Hash) int {
	given, args := t.options("btcwz", map[string]rune{"binary": 'b', "text": 't', "check": 'c', "quiet": 1, "status": 2, "strict": 3, "ignore-missing": 4, "zero": 'z'}, 1)
	check, binary, quiet, silent, end := false, false, false, false, byte('\n')
	ignoreMissing, verified := false, 0
	for _, o := range given {
		switch o.flag {
		case 'b':
			binary = true
		case 'c':
			check = true
		case 1:
			quiet = true
		case 2:
			silent = true
		case 4:
			ignoreMissing = true
		case 'z':
			end = 0
		}
	}
	sum := func(r io.Reader) (string, error) {
		h := algorithm()
		_, err := io.CopyBuffer(h, onlyReader{r}, make([]byte, 64<<10))
		return hex.EncodeToString(h.Sum(nil)), err
	}
	if !check {
		mark := " "
		if binary {
			mark = "*"
		}
		t.each(args, func(name string, r io.Reader) {
			s, err := sum(r)
			if err != nil {
				t.fail(name, err)
				return
			}
			t.line([]byte(s+" "+mark+name), end)
		})
		return t.status
	}
	bad, missing, malformed, lines := 0, 0, 0, 0
	t.eachLine(args, '\n', func(line []byte, _ bool) {
		want, name, ok := strings.Cut(string(line), " ")
		if !ok || len(want) != 2*algorithm().Size() || len(name) < 2 || name[0] != ' ' && name[0] != '*' {
			malformed++
			return
		}
		lines++
		name = name[1:]
		r, err := t.open(name)
		if ignoreMissing && errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err == nil {
			defer r.Close()
			verified++
			var got string
			if got, err = sum(r); err == nil {
				switch {
				case !strings.EqualFold(got, want):
					bad++
					if !silent {
						t.printf("%s: FAILED\n", name)
					}
				case !quiet && !silent:
					t.printf("%s: OK\n", name)
				}
				return
			}
		}
		missing++
		t.fail(name, err)
		if !silent {
			t.printf("%s: FAILED open or read\n", name)
		}
	})
	if lines == 0 {
		t.die(1, "no properly formatted checksum lines found")
	}
	if ignoreMissing && verified == 0 {
		t.die(1, "no file was verified")
	}
	if bad > 0 && !silent {
		t.complain("WARNING: %d computed checksum(s) did NOT match", bad)
	}
	if malformed > 0 && !silent {
		t.out.Flush()
		io.WriteString(t.Stderr, t.Name+": WARNING: some lines are improperly formatted\n")
	}
	if bad > 0 || missing > 0 {
		return 1
	}
	return t.status
}
