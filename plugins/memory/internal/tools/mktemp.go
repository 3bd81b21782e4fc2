package tools

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"strings"
)

func mktemp(t *tool) int {
	given, args := t.options("dp:qtu", map[string]rune{"directory": 'd', "tmpdir": 'p', "quiet": 'q', "dry-run": 'u'}, 1)
	dir, base, dry, explicit := false, "", false, false
	for _, o := range given {
		switch o.flag {
		case 'd':
			dir = true
		case 'p':
			base, explicit = o.value, true
		case 't':
			explicit = true
		case 'u':
			dry = true
		}
	}
	if len(args) > 1 {
		t.die(1, "too many templates")
	}
	template := "tmp.XXXXXXXXXX"
	if len(args) == 1 {
		template = args[0]
	} else {
		explicit = true
	}
	if explicit {
		if base == "" {
			base = t.getenv("TMPDIR")
		}
		if base == "" {
			base = "/tmp"
		}
		template = join(base, template)
	}
	start := strings.LastIndex(template, "XXX")
	if start < 0 {
		t.die(1, "too few X's in template %s", quote(template))
	}
	end := start + 3
	for start > 0 && template[start-1] == 'X' {
		start--
	}
	if strings.Contains(template[end:], "/") {
		t.die(1, "the suffix of the template %s must not contain a slash", quote(template))
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	for range 100 {
		random := make([]byte, end-start)
		rand.Read(random)
		for i := range random {
			random[i] = letters[int(random[i])%len(letters)]
		}
		name := template[:start] + string(random) + template[end:]
		var err error
		switch {
		case dry:
		case dir:
			err = t.FS.Mkdir(t.Dir, name, 0o700)
		default:
			var f interface{ Close() error }
			if f, err = t.FS.Open(t.Dir, name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				f.Close()
			}
		}
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			t.die(1, "failed to create %s: %s", quote(template), reason(err))
		}
		t.printf("%s\n", name)
		return 0
	}
	t.die(1, "no free name for %s", quote(template))
	return 1
}
