package host

import (
	"strings"
	"testing"
)

// The user of a step is found in the image's own files, or is a number.
func TestFindOwner(t *testing.T) {
	const passwd, group = "root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/:/bin/sh\n", "root:x:0:\nextra:x:2000:app\n"
	for user, want := range map[string]ownership{
		"app": {1000, 1001}, "1000": {1000, 1001}, "app:extra": {1000, 2000}, "7": {7, 0}, "7:8": {7, 8}, "root": {}, "nobody-knows": {}, "app:nobody-knows": {},
	} {
		if got := findOwner(user, strings.NewReader(passwd), strings.NewReader(group)); got != want {
			t.Errorf("%s: %v, want %v", user, got, want)
		}
		if n := user[0]; n != '7' {
			continue
		}
		if got := findOwner(user, strings.NewReader(""), strings.NewReader("")); got != want {
			t.Errorf("%s without files: %v, want %v", user, got, want)
		}
		if got := findOwner(user, strings.NewReader("7:x:a\n:::\n\x00"), strings.NewReader("")); got != want {
			t.Errorf("%s with damaged files: %v, want %v", user, got, want)
		}
	}
}
