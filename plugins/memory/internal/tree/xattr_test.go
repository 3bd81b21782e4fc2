package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"strings"
	"syscall"
	"testing"
)

// with gives an entry extended attributes.
func (e ent) with(attrs map[string]string) ent {
	e.PAXRecords = make(map[string]string)
	for name, value := range attrs {
		e.PAXRecords[paxXattr+name] = value
	}
	return e
}

// attrsOf reads a tree's attributes out of its archive, by name.
func attrsOf(t *testing.T, tr *Tree) map[string]map[string]string {
	t.Helper()
	all := make(map[string]map[string]string)
	for r := tar.NewReader(bytes.NewReader(pack(t, tr, ""))); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range h.PAXRecords {
			if name, ok := strings.CutPrefix(key, paxXattr); ok {
				if all[h.Name] == nil {
					all[h.Name] = make(map[string]string)
				}
				all[h.Name][name] = value
			}
		}
	}
}

func TestXattrsGoInAndOut(t *testing.T) {
	b := newBudget(t, 0)
	tr := newTree(t, b)
	binary := "\x01\x00\x00\x02=\n\xff"
	given := map[string]map[string]string{
		"./":   {"user.root": "r"},
		"d/":   {"user.d": "1", "trusted.x": "2"},
		"f":    {"security.capability": binary, "user.a": "", "user.a%3Db%25": "named"},
		"link": {"trusted.link": "l"},
	}
	data := archive(t,
		dir("./").with(given["./"]), dir("d/").with(given["d/"]),
		reg("f", "content").with(map[string]string{"security.capability": binary, "user.a": "", "user.a%3Db%25": "named",
			"security.selinux": "of one machine", "user.overlay.opaque": "of one mount"}),
		sym("link", "f").with(given["link"]), hard("hard", "f"))
	if err := unpack(tr, data, ""); err != nil {
		t.Fatal(err)
	}
	check := func(tr *Tree, want map[string]map[string]string) {
		t.Helper()
		got := attrsOf(t, tr)
		if !maps.EqualFunc(got, want, maps.Equal) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	check(tr, given)
	if err := audit(b, tr); err != nil {
		t.Error(err)
	}
	again := newTree(t, b)
	if err := unpack(again, pack(t, tr, ""), ""); err != nil {
		t.Fatal(err)
	}
	check(again, given)

	// A clone has them, and each goes its own way.
	clone := tr.Clone()
	t.Cleanup(clone.Release)
	if err := unpack(clone, archive(t, dir("d/"), reg("f", "new").with(map[string]string{"user.new": "n"})), ""); err != nil {
		t.Fatal(err)
	}
	changed := maps.Clone(given)
	delete(changed, "d/")
	changed["f"] = map[string]string{"user.new": "n"}
	// The hard link was left behind, and is now the first name of the file.
	changed["hard"] = given["f"]
	check(clone, changed)
	check(tr, given)
	if err := audit(b, tr, again, clone); err != nil {
		t.Error(err)
	}

	w := newWorld(t, clone)
	w.put("/copy", "x")
	w.ok(w.CopyXattrs("/", "/hard", "/copy"))
	w.ok(w.CopyXattrs("/", "/link", "/f"))
	w.ok(w.CopyXattrs("/", "/dev/null", "/link"))
	w.is(w.CopyXattrs("/", "/nope", "/f"), syscall.ENOENT)
	changed["copy"], changed["f"] = given["f"], given["link"]
	delete(changed, "link")
	delete(changed, "hard")
	changed["hard"] = given["f"]
	check(clone, changed)
	clone.Seal()
	w.is(w.CopyXattrs("/", "/f", "/hard"), syscall.EROFS)
}

func TestXattrsHaveLimits(t *testing.T) {
	long := strings.Repeat("x", maxXattrValue)
	many := map[string]string{}
	for _, c := range "abcdefghi" {
		many["user."+string(c)] = long
	}
	b := newBudget(t, 0)
	for name, c := range map[string]struct {
		attrs map[string]string
		want  error
	}{
		"long":          {map[string]string{"user.x": long}, nil},
		"too long":      {map[string]string{"user.x": long + "x"}, syscall.E2BIG},
		"name too long": {map[string]string{"user." + strings.Repeat("n", 251): ""}, syscall.E2BIG},
		"too many":      {many, syscall.E2BIG},
	} {
		for _, e := range []ent{reg("f", ""), dir("d/"), sym("l", "t")} {
			err := unpack(newTree(t, b), archive(t, e.with(c.attrs)), "")
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %s: %v, want %v", name, e.Name, err, c.want)
			}
		}
	}
	small := newBudget(t, 32<<10)
	tr := newTree(t, small)
	for _, e := range []ent{reg("f", ""), dir("./")} {
		if err := unpack(tr, archive(t, e.with(map[string]string{"user.x": long})), ""); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: attributes beyond the budget: %v", e.Name, err)
		}
	}
	if err := audit(small, tr); err != nil {
		t.Error(err)
	}
}
