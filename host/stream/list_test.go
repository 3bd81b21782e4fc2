package stream

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// TestListOddArchives: directories that only names tell of, entries that come twice, links to what stands elsewhere.
func TestListOddArchives(t *testing.T) {
	t.Parallel()
	type entry struct {
		name string
		kind byte
		text string // of a file its content, of a link its target
	}
	for name, c := range map[string]struct {
		entries []entry
		dir     string
		want    string
		fails   error
	}{
		"told by names alone": {[]entry{{"a/b/c", tar.TypeReg, "x"}}, "", "drwxr-xr-x a 0", nil},
		"and below that":      {[]entry{{"a/b/c", tar.TypeReg, "x"}}, "a", "drwxr-xr-x b 0", nil},
		"told later":          {[]entry{{"a/b", tar.TypeReg, "x"}, {"a/", tar.TypeDir, ""}}, "", "drwx------ a 0", nil},
		"the last is taken":   {[]entry{{"f", tar.TypeReg, "x"}, {"./f", tar.TypeReg, "long"}}, ".", "-rw------- f 4", nil},
		"a file after a directory": {[]entry{{"a/b", tar.TypeReg, "x"}, {"a", tar.TypeReg, "xyz"}}, "a",
			"-rw------- a 3", nil},
		"a directory after a file": {[]entry{{"a", tar.TypeReg, "xyz"}, {"a", tar.TypeDir, ""}, {"a/b", tar.TypeReg, "x"}}, "a",
			"-rw------- b 1", nil},
		"a link to elsewhere": {[]entry{{"x/f", tar.TypeReg, "abc"}, {"a/l", tar.TypeLink, "x/f"}}, "a", "-rw------- l 3", nil},
		"a link itself":       {[]entry{{"x/f", tar.TypeReg, "abc"}, {"l", tar.TypeLink, "x/f"}}, "l", "-rw------- l 3", nil},
		"no more a link":      {[]entry{{"f", tar.TypeReg, "abc"}, {"l", tar.TypeLink, "f"}, {"l", tar.TypeReg, "x"}}, "l", "-rw------- l 1", nil},
		"nothing in it":       {nil, "", "", nil},
		"an empty directory":  {[]entry{{"a", tar.TypeDir, ""}}, "a", "", nil},
		"not there":           {[]entry{{"ab", tar.TypeReg, "x"}}, "a", "", sdk.NotFound},
		"it leaves":           {[]entry{{"../a", tar.TypeReg, "x"}}, "", "", sdk.ReasonArchive},
		"too many":            {slices.Repeat([]entry{{"%d", tar.TypeReg, ""}}, sdk.MaxListed+1), "", "", sdk.ReasonTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for i, e := range c.entries {
				h := tar.Header{Name: strings.ReplaceAll(e.name, "%d", strconv.Itoa(i)), Typeflag: e.kind, Mode: 0o600}
				switch e.kind {
				case tar.TypeReg:
					h.Size = int64(len(e.text))
				case tar.TypeDir:
					h.Mode = 0o700
				default:
					h.Linkname = e.text
				}
				err := w.WriteHeader(&h)
				if err == nil && e.kind == tar.TypeReg {
					_, err = io.WriteString(w, e.text)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			files, err := ListFiles(t.Context(), func(_ context.Context, w io.Writer) error { _, err := w.Write(b.Bytes()); return err }, c.dir)
			var got []string
			for _, f := range files {
				got = append(got, fmt.Sprintf("%v %s %d", f.Mode, f.Name, f.Size))
			}
			if !errors.Is(err, c.fails) || strings.Join(got, ", ") != c.want {
				t.Errorf("%q, %v; want %q, %v", got, err, c.want, c.fails)
			}
		})
	}
}
