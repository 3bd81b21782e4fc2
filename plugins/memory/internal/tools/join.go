package tools

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
)

// joining is what join was asked for.
type joining struct {
	*tool
	field   [2]int // from 0 on
	blank   bool   // fields are separated by any blanks
	sep     byte
	nocase  bool
	lone    [2]bool // print lines of that file without a partner
	paired  bool    // print pairs
	missing string
	output  [][2]int // file (-1: the join field) and field; nil: all
}

// row is a line in fields.
type row struct {
	fields [][]byte
	key    string
}

func joinTool(t *tool) int {
	given, args := t.options("1:2:j:t:ia:v:e:o:z", map[string]rune{"ignore-case": 'i', "check-order": 3, "nocheck-order": 4, "header": 5}, 1)
	j := &joining{tool: t, blank: true, sep: ' ', paired: true}
	for _, o := range given {
		switch o.flag {
		case '1':
			j.field[0] = t.count(o, 1) - 1
		case '2':
			j.field[1] = t.count(o, 1) - 1
		case 'j':
			j.field = [2]int{t.count(o, 1) - 1, t.count(o, 1) - 1}
		case 't':
			if o.value == `\t` {
				o.value = "\t"
			}
			if len(o.value) != 1 {
				t.die(1, "the separator must be one character, not %s", quote(o.value))
			}
			j.blank, j.sep = false, o.value[0]
		case 'i':
			j.nocase = true
		case 'a', 'v':
			if o.value != "1" && o.value != "2" {
				t.die(1, "invalid file number %s", quote(o.value))
			}
			j.lone[o.value[0]-'1'] = true
			j.paired = j.paired && o.flag == 'a'
		case 'e':
			j.missing = o.value
		case 'o':
			j.format(o.value)
		case 5, 'z':
			t.die(1, "--header and -z are not supported")
		}
	}
	if len(args) != 2 {
		t.die(1, "two files are needed, not %d", len(args))
	}
	var rows [2][]row
	for i, name := range args {
		t.each([]string{name}, func(_ string, r io.Reader) {
			l := newLines(r, '\n')
			for {
				line, _, ok := l.next()
				if !ok {
					break
				}
				rows[i] = append(rows[i], j.row(bytes.Clone(line), j.field[i]))
			}
			if err := l.failed(); err != nil {
				t.fail(name, err)
			}
		})
	}
	if t.status != 0 {
		return t.status
	}
	j.run(rows[0], rows[1])
	return t.status
}

func (j *joining) format(spec string) {
	if spec == "auto" {
		j.die(1, "-o auto is not supported")
	}
	for f := range strings.FieldsFuncSeq(spec, func(r rune) bool { return r == ',' || r == ' ' }) {
		if f == "0" {
			j.output = append(j.output, [2]int{-1, 0})
			continue
		}
		file, field, _ := strings.Cut(f, ".")
		n, err := strconv.Atoi(field)
		if file != "1" && file != "2" || err != nil || n < 1 {
			j.die(1, "invalid field specifier: %s", quote(f))
		}
		j.output = append(j.output, [2]int{int(file[0] - '1'), n - 1})
	}
}

func (j *joining) row(line []byte, key int) row {
	r := row{}
	if j.blank {
		r.fields = bytes.Fields(line)
	} else {
		r.fields = bytes.Split(line, []byte{j.sep})
	}
	if key < len(r.fields) {
		r.key = string(r.fields[key])
	}
	if j.nocase {
		r.key = strings.ToLower(r.key)
	}
	return r
}

func (j *joining) run(a, b []row) {
	files, alone := [][]row{a, b}, false // disorder matters where a line finds no partner
	defer func() {
		if alone {
			j.ordered(files)
		}
	}()
	same := func(rows []row) int { // how many begin with the same key
		n := 1
		for n < len(rows) && rows[n].key == rows[0].key {
			n++
		}
		return n
	}
	for len(a) > 0 || len(b) > 0 {
		j.check()
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].key < b[0].key:
			alone = true
			if j.lone[0] {
				j.print(&a[0], nil)
			}
			a = a[1:]
		case len(a) == 0 || b[0].key < a[0].key:
			alone = true
			if j.lone[1] {
				j.print(nil, &b[0])
			}
			b = b[1:]
		default:
			n, m := same(a), same(b)
			for i := range n {
				for k := range m {
					if j.paired {
						j.print(&a[i], &b[k])
					}
				}
			}
			a, b = a[n:], b[m:]
		}
	}
}

// ordered complains of files that are not.
func (j *joining) ordered(files [][]row) {
	for i, rows := range files {
		if !slices.IsSortedFunc(rows, func(x, y row) int { return strings.Compare(x.key, y.key) }) {
			j.complain("file %d is not in sorted order", i+1)
		}
	}
}

func (j *joining) print(a, b *row) {
	sides := [2]*row{a, b}
	var out [][]byte
	field := func(file, n int) []byte {
		if r := sides[file]; r != nil && n < len(r.fields) && len(r.fields[n]) > 0 {
			return r.fields[n]
		}
		return []byte(j.missing)
	}
	key := 0
	if a == nil {
		key = 1
	}
	switch {
	case j.output != nil:
		for _, o := range j.output {
			if o[0] < 0 {
				out = append(out, field(key, j.field[key]))
				continue
			}
			out = append(out, field(o[0], o[1]))
		}
	default:
		out = append(out, field(key, j.field[key]))
		for file, r := range sides {
			if r == nil {
				continue
			}
			for n := range r.fields {
				if n != j.field[file] {
					out = append(out, field(file, n))
				}
			}
		}
	}
	j.line(bytes.Join(out, []byte{j.sep}), '\n')
}
