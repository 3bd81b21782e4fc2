package shell

import (
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/interp"

	"github.com/slipway-run/slipway/plugins/memory/internal/tools"
)

// text takes what source prepared.
func (u *unit) text(name string) (string, bool) {
	if !strings.HasPrefix(name, sourced) {
		return "", false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	text, ok := u.texts[name]
	delete(u.texts, name)
	return text, ok
}

// sourced begins the names by which the interpreter reads vetted scripts. It
// looks for them on the machine first, where no such name can exist.
const sourced = "/\x00source/"

// source vets the script that source or . would read.
func (u *unit) source(hc interp.HandlerContext, args []string) []string {
	rest := trimDashes(args[1:])
	if len(rest) == 0 {
		return fails(2, "%s: give a file", args[0])
	}
	text, err := u.sourceText(hc, rest[0])
	if err != nil {
		return fails(1, "%s: %v", args[0], err)
	}
	text, _, err = u.p.e.vet(rest[0], text, u.pid)
	if err != nil {
		return fails(usage, "%s: %v", args[0], err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.texted++
	key := sourced + strconv.Itoa(u.texted)
	if u.texts == nil {
		u.texts = make(map[string]string)
	}
	u.texts[key] = text
	if !strings.Contains(text, "BASH_SOURCE") {
		return append([]string{"source", key}, rest[1:]...)
	}
	return []string{"eval", "BASH_SOURCE=(" + quote(rest[0]) + ` "${BASH_SOURCE[@]}"); ` + quote(direct+"source") + " " + strconv.Itoa(u.texted) + " " + quoted(rest[1:]) + "; " + quote(direct+"sourced")}
}

func (u *unit) sourceText(hc interp.HandlerContext, name string) (string, error) {
	if dev, ok := tools.Device(hc.Dir, name); ok && dev == "stdin" {
		return u.p.readAll(hc.Stdin)
	}
	if fd, ok := tools.Descriptor(hc.Dir, name); ok {
		o, err := u.descriptor(hc, fd)
		if err != nil {
			return "", err
		}
		f, err := u.p.opened(o, false)
		if err != nil {
			return "", err
		}
		defer f.Close()
		return u.p.readAll(f)
	}
	if !strings.Contains(name, "/") {
		for elem := range strings.SplitSeq(hc.Env.Get("PATH").String(), ":") {
			p := path.Join(dirOr(elem), name)
			if info, err := u.p.ns.Stat(hc.Dir, p); err == nil && info.Mode().IsRegular() {
				return u.p.readScript(hc.Dir, p)
			}
		}
	}
	return u.p.readScript(hc.Dir, name)
}
