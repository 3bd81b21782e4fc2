package garden

import (
	"archive/tar"
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMountPoints(t *testing.T) {
	image := tree{
		"": {kind: isDir}, "bin": {kind: isLink, link: "usr/bin"}, "usr": {kind: isDir}, "usr/bin": {kind: isDir}, "tmp": {kind: isDir},
		"var": {kind: isDir}, "var/run": {kind: isLink, link: "/run"}, "run": {kind: isDir}, "etc": {kind: isDir}, "etc/passwd": {kind: isOther},
		"out": {kind: isLink, link: "../../../etc"}, "loop": {kind: isLink, link: "loop"}, "dangling": {kind: isLink, link: "/not/there"},
	}
	for name, c := range map[string]struct {
		points, missing []string
		bad             string
	}{
		"there":                           {points: []string{"/tmp"}},
		"new":                             {points: []string{"/tmp/build/x"}, missing: []string{"tmp/build", "tmp/build/x"}},
		"two in one":                      {points: []string{"/w/b", "/w/a"}, missing: []string{"w", "w/a", "w/b"}},
		"below another":                   {points: []string{"/w/a/b", "/w"}, missing: []string{"w"}},
		"through a relative link":         {points: []string{"/bin/x"}, missing: []string{"usr/bin/x"}},
		"through an absolute link":        {points: []string{"/var/run/x"}, missing: []string{"run/x"}},
		"a link that leads out stays in":  {points: []string{"/out/x"}, missing: []string{"etc/x"}},
		"a link to what is not there":     {points: []string{"/dangling/x"}, missing: []string{"not", "not/there", "not/there/x"}},
		"at a file":                       {points: []string{"/etc/passwd"}, bad: "/etc/passwd"},
		"below a file":                    {points: []string{"/tmp", "/etc/passwd/x"}, bad: "/etc/passwd/x"},
		"in a circle":                     {points: []string{"/loop/x"}, bad: "/loop/x"},
		"the same by two ways, made once": {points: []string{"/var/run/x", "/run/x"}, missing: []string{"run/x"}},
	} {
		missing, bad := image.missing(c.points)
		if d := cmp.Diff(c.missing, missing); d != "" || bad != c.bad {
			t.Errorf("%s: bad %q, want %q; missing (-want +got):\n%s", name, bad, c.bad, d)
		}
	}
}

func TestParseTree(t *testing.T) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir}, {Name: "./a/", Typeflag: tar.TypeDir}, {Name: "./a/f", Typeflag: tar.TypeReg}, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "a"},
	} {
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	tw.Close()
	want := tree{"": {kind: isDir}, "a": {kind: isDir}, "a/f": {kind: isOther}, "l": {kind: isLink, link: "a"}}
	got, err := parseTree(&b)
	if d := cmp.Diff(want, got, cmp.AllowUnexported(node{})); err != nil || d != "" {
		t.Errorf("%v; (-want +got):\n%s", err, d)
	}
}

// TestTreesAreBounded: what is kept of images is bounded by its size; the newest stays, however large it is.
func TestTreesAreBounded(t *testing.T) {
	large := make(tree)
	for i := range 20_000 {
		large[fmt.Sprintf("%0500d", i)] = node{kind: isOther}
	}
	var kept trees
	kept.put("small", tree{"": {kind: isDir}})
	for _, key := range []string{"one", "two", "three"} {
		kept.put(key, large)
	}
	for key, want := range map[string]bool{"small": false, "one": false, "two": false, "three": true} {
		if _, got := kept.get(key); got != want {
			t.Errorf("%s is kept: %t, of %d bytes in all", key, got, kept.bytes)
		}
	}
	if most := 2 * large.bytes(); kept.bytes > most {
		t.Errorf("%d bytes are kept, want at most %d", kept.bytes, most)
	}
}
