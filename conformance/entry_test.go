package conformance

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTreesThatDiffer shows that each thing a tree may lose is seen.
func TestTreesThatDiffer(t *testing.T) {
	base := func() []Entry {
		return []Entry{Dir("d"), File("d/f", "data"), Symlink("l", "d/f"), File("h", "x"), Hardlink("i", "h")}
	}
	if d := compareTrees(base(), base(), 0); d != nil {
		t.Fatalf("equal trees differ: %q", d)
	}
	for what, change := range map[string]func(e []Entry) []Entry{
		"missing":       func(e []Entry) []Entry { return e[1:] },
		"extra":         func(e []Entry) []Entry { return append(e, File("new", "")) },
		"twice":         func(e []Entry) []Entry { return append(e, e[1]) },
		"mode":          func(e []Entry) []Entry { e[1].Mode |= 0o4000; return e },
		"owner":         func(e []Entry) []Entry { e[0].GID = 1; return e },
		"time":          func(e []Entry) []Entry { e[1].ModTime++; return e },
		"dir's time":    func(e []Entry) []Entry { e[0].ModTime++; return e },
		"link's time":   func(e []Entry) []Entry { e[2].ModTime++; return e },
		"data":          func(e []Entry) []Entry { e[1].Data = "Data"; return e },
		"link's target": func(e []Entry) []Entry { e[2].Link = "d"; return e },
		"type":          func(e []Entry) []Entry { e[2].Type = '0'; return e },
		"copied link":   func(e []Entry) []Entry { e[4] = File("i", "x"); return e },
	} {
		if d := compareTrees(change(base()), base(), 0); len(d) != 1 {
			t.Errorf("%s: %q, want one difference", what, d)
		}
	}
	if d := compareTrees([]Entry{{Path: "a", Mode: 1, UID: 2, ModTime: 3}}, []Entry{{Path: "a"}}, IgnoreMeta); d != nil {
		t.Errorf("ignored all the same: %q", d)
	}
}

// TestHardLinksInAnyOrder shows that a tree does not depend on which name of a file its archive tells first.
func TestHardLinksInAnyOrder(t *testing.T) {
	want := []Entry{File("a", "x"), Hardlink("b", "a"), Hardlink("c", "a"), File("d", "")}
	for _, in := range [][]Entry{
		want,
		{File("c", "x"), Hardlink("a", "c"), Hardlink("b", "c"), File("d", "")},
		{File("d", ""), File("b", "x"), Hardlink("c", "b"), Hardlink("a", "b")},
		{File("b", "x"), Hardlink("a", "b"), Hardlink("c", "b"), File("d", "")},
	} {
		b, err := pack(in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Unpack(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if d := compareTrees(got, want, 0); d != nil {
			t.Errorf("%v: %q", in, d)
		}
	}
}

func TestUnpackTellsOfDamage(t *testing.T) {
	b, err := pack([]Entry{File("a", "some data")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(bytes.NewReader(b[:515])); err == nil {
		t.Error("half an archive was taken")
	}
	got, err := Unpack(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Entry{File("a", "some data")}, got); d != "" {
		t.Error(d)
	}
}
