package host

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

func TestResolvePath(t *testing.T) {
	for _, c := range []struct{ dir, in, want string }{ // want empty: Invalid
		{"/work", "src", "/work/src"},
		{"/work", "./src//a/", "/work/src/a"},
		{"/work", "a/../b", "/work/b"},
		{"/work", ".", "/work"},
		{"/work", "/etc/x", "/etc/x"},
		{"/work", "//etc//x/", "/etc/x"},
		{"/work", "/a/../b", "/b"},
		{"/", "a", "/a"},
		{"/work", "a b/ü", "/work/a b/ü"},
		{"/work", "...", "/work/..."},
		{"/work", "", ""},
		{"/work", "..", ""},
		{"/work", "../work/src", ""},
		{"/work", "a/../../work/a", ""},
		{"/work", "/..", ""},
		{"/work", "/../etc", ""},
		{"/work", "/a/../../a", ""},
		{"/work", "a\x00b", ""},
	} {
		got, err := resolvePath(c.dir, c.in)
		if c.want == "" {
			if !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonPath) {
				t.Errorf("resolvePath(%q, %q) = %q, %v; want Invalid(path)", c.dir, c.in, got, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("resolvePath(%q, %q) = %q, %v; want %q", c.dir, c.in, got, err, c.want)
		}
	}
}

func FuzzResolvePath(f *testing.F) {
	for _, s := range []string{"a", "../a", "/..", "a/b/../../..", "\x00", "./."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := resolvePath("/work/dir", in)
		if err != nil {
			return
		}
		if !path.IsAbs(got) || path.Clean(got) != got || strings.ContainsRune(got, 0) {
			t.Fatalf("resolvePath(%q) = %q", in, got)
		}
		if !path.IsAbs(in) && got != "/work/dir" && !strings.HasPrefix(got, "/work/dir/") {
			t.Fatalf("relative %q left its directory: %q", in, got)
		}
	})
}
