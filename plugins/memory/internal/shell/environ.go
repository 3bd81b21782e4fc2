package shell

import (
	"runtime"
	"strings"
	"sync/atomic"

	"mvdan.cc/sh/v3/expand"
)

// environ is what a shell starts with. It answers the interpreter's questions
// that would otherwise go to the machine.
type environ struct {
	vars  map[string]expand.Variable
	armed atomic.Bool // until the interpreter has asked where its own files go
}

func newEnviron(env []string) *environ {
	e := &environ{vars: make(map[string]expand.Variable, len(env)+5)}
	e.armed.Store(true)
	for _, d := range []struct{ name, value string }{{"HOME", "/root"}, {"PATH", defaultPath}, {"UID", "0"}, {"EUID", "0"}, {"GID", "0"}} {
		e.vars[d.name] = expand.Variable{Set: true, Kind: expand.String, Str: d.value}
	}
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \x00") {
			continue
		}
		e.vars[name] = expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: value}
	}
	return e
}

// nowhere is a directory that no system call accepts.
func nowhere() string {
	if runtime.GOOS == "windows" {
		return "C:\\\x00"
	}
	return "/\x00"
}

// Get implements expand.Environ.
func (e *environ) Get(name string) expand.Variable {
	if name == "TMPDIR" && e.armed.Load() {
		return expand.Variable{Set: true, Kind: expand.String, Str: nowhere()}
	}
	// The home of a user, who must not be looked up on the machine.
	if user, ok := strings.CutPrefix(name, "HOME "); ok {
		return expand.Variable{Set: true, Kind: expand.String, Str: homeOf(user)}
	}
	return e.vars[name]
}

// homeOf is what ~user means: there is nobody but root.
func homeOf(user string) string {
	if user == "root" {
		return "/root"
	}
	return "~" + user
}

// Each implements expand.Environ.
func (e *environ) Each(f func(string, expand.Variable) bool) {
	for name, v := range e.vars {
		if !f(name, v) {
			return
		}
	}
}

// exported is the environment of a command.
func exported(env expand.Environ, dir string) []string {
	vars := make(map[string]string)
	for name, v := range env.Each {
		if !v.IsSet() || !v.Exported || v.Kind != expand.String {
			delete(vars, name)
			continue
		}
		vars[name] = v.Str
	}
	vars["PWD"] = dir
	list := make([]string, 0, len(vars))
	for name, value := range vars {
		list = append(list, name+"="+value)
	}
	return list
}
