//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/moby/sys/user"
	"github.com/slipway-run/slipway/plugins/runc/engine"
)

// account is a user as a container's own files have it.
type account struct {
	name, home string
	numbers    engine.User
}

// user looks up a name or a number, with a group behind a colon if there is one. A number need not be known, a name must be; none is root.
func (r root) user(name string) (account, error) {
	name = cmp.Or(name, "root")
	passwd, err := r.textIfThere("/etc/passwd")
	if err != nil {
		return account{}, err
	}
	group, err := r.textIfThere("/etc/group")
	if err != nil {
		return account{}, err
	}
	lookup := name
	if name == "root" && passwd == "" {
		lookup = "0"
	}
	found, err := user.GetExecUser(lookup, &user.ExecUser{Home: "/"}, strings.NewReader(passwd), strings.NewReader(group))
	if err != nil {
		return account{}, fmt.Errorf("user %q: %w", name, err)
	}
	a := account{name: name, home: found.Home, numbers: engine.User{UID: uint32(found.Uid), GID: uint32(found.Gid)}}
	for _, g := range found.Sgids {
		a.numbers.Groups = append(a.numbers.Groups, uint32(g))
	}
	return a, nil
}

func (r root) textIfThere(name string) (string, error) {
	text, err := r.text(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return text, err
}
