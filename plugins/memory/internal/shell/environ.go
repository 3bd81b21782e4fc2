package shell

import (
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"mvdan.cc/sh/v3/expand"
)

// environ is what a shell starts with. It answers the interpreter's questions
// that would otherwise go to the machine.
type environ struct {
	vars  map[string]expand.Variable
	began time.Time
	armed atomic.Bool // until the interpreter has asked where its own files go
}

func newEnviron(env []string) *environ {
	e := &environ{vars: make(map[string]expand.Variable, len(env)+5), began: time.Now()}
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

// list is an array that the shell has.
func (e *environ) list(name string, values ...string) {
	e.vars[name] = expand.Variable{Set: true, Kind: expand.Indexed, List: values}
}

// bash is what scripts ask to know whether they may use what bash has and sh has not.
func (e *environ) bash() {
	e.list("BASH_VERSINFO", "5", "2", "0", "1", "slipway", "memory")
	e.vars["BASH_VERSION"] = expand.Variable{Set: true, Kind: expand.String, Str: "5.2.0(1)-slipway"}
}

// seconds is SECONDS, how long the shell has run.
func (e *environ) seconds() expand.Variable {
	return expand.Variable{Set: true, Kind: expand.String, Str: strconv.Itoa(int(time.Since(e.began).Seconds()))}
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
	if v, ok := e.vars[name]; ok || name != "SECONDS" {
		return v
	}
	return e.seconds()
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
	if _, ok := e.vars["SECONDS"]; !ok {
		f("SECONDS", e.seconds())
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
