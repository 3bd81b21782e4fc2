// Package tools has the everyday utilities of build scripts, written against a
// container's files instead of the machine's.
//
// A tool is a function of a [Call]: arguments, environment, streams, and the
// [tree.Namespace] that is all it can reach. There is no global state, no
// program is started but through Call.Run, and no file of the machine is
// opened. The clock and the entropy are the machine's.
//
// Tools stream: what they hold does not grow with their input, except sort (all
// of its input, and about 40 bytes for each line), tac, diff, patch, join, shuf
// and tsort (all of it), od (of files), tail and head -n -N (the lines they must
// keep), and whatever handles a line as one.
//
// Options and exit statuses follow GNU's and POSIX's where scripts depend on
// them; an option that is not there is an error, never ignored. Regular
// expressions are RE2's, translated from basic or extended syntax: they are
// linear in time and have no back-references, and a pattern with one is refused.
package tools

import (
	"context"
	"io"
	"io/fs"

	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

// Func runs a tool and returns its exit status. It returns soon after ctx has
// ended, with a status that means nothing, provided that Read of Call.Stdin and
// Write of its outputs do; a Stdin with SetReadDeadline is woken by that.
// It starts no goroutine that outlives it.
type Func func(ctx context.Context, c *Call) int

// Call is one run of a tool. FS, Stdout and Stderr must be set.
type Call struct {
	Name  string   // for messages
	Args  []string // without the name
	Env   Env
	Dir   string // absolute
	FS    *tree.Namespace
	Umask fs.FileMode

	Stdin          io.Reader // nil reads as empty
	Stdout, Stderr io.Writer

	// Descriptor opens /dev/fd/NAME, from 3 on. Nil: there are none.
	Descriptor func(name string, writes bool) (io.ReadWriteCloser, error)

	// Run runs another command for xargs, env and find -exec. Nil: there is none.
	Run func(ctx context.Context, cmd Command) int
	// Find says where the command of that name is, for which. Nil: nowhere.
	Find func(name string) (path string, ok bool)
}

// Env is what a tool sees of the environment. Nil members mean that it is empty.
type Env struct {
	Lookup func(name string) (string, bool)
	List   func() []string // "name=value"
}

// Command is what a tool asks to be run.
type Command struct {
	Argv           []string
	Env            []string // nil: the tool's own
	Dir            string
	Stdin          io.Reader // nil reads as empty
	Stdout, Stderr io.Writer
	Signals        <-chan string // to this command alone, by name; nil: none
}

// Table returns every tool by its name. The caller owns the map.
func Table() map[string]Func {
	table := make(map[string]Func)
	for name, f := range map[string]func(*tool) int{
		"true":  func(*tool) int { return 0 },
		"false": func(*tool) int { return 1 },

		"echo": echo, "printf": printf, "yes": yes, "seq": seq, "pwd": pwd, "sleep": sleep, "date": date,
		"basename": basename, "dirname": dirname, "test": test, "[": test, "expr": expr,
		"env": env, "printenv": printenv, "xargs": xargs, "find": find,
		"cat": cat, "tac": tac, "tee": tee, "head": head, "tail": tail, "wc": wc,
		"sort": sortLines, "uniq": uniq, "comm": comm, "cut": cut, "paste": paste, "tr": tr, "rev": rev,
		"grep": grep, "egrep": grep, "fgrep": grep, "sed": sed, "awk": awk,
		"mkdir": mkdir, "rmdir": rmdir, "rm": rm, "touch": touch, "chmod": chmod, "ln": ln, "cp": cp, "mv": mv, "ls": ls, "stat": stat,
		"readlink": readlink, "realpath": readlink, "mktemp": mktemp, "truncate": truncate, "dd": dd, "du": du,
		"install": install, "link": linkTool, "unlink": unlink, "chown": chown, "chgrp": chown,
		"diff": diff, "cmp": cmpFiles, "patch": patch, "tar": tarTool, "gzip": gzipTool, "gunzip": gzipTool, "zcat": gzipTool,
		"base64": base64Tool, "base32": base32Tool, "od": od, "cksum": cksum, "md5sum": md5sum, "sha224sum": sha224sum, "sha384sum": sha384sum,
		"nl": nl, "fold": fold, "expand": expand, "unexpand": unexpand, "split": splitFile, "join": joinTool, "tsort": tsort, "shuf": shuf, "strings": stringsTool,
		"id": id, "whoami": whoami, "uname": uname, "arch": arch, "hostname": hostname, "nproc": nproc, "getconf": getconf, "tty": tty, "sync": syncTool,
		"timeout": timeout, "nice": through, "nohup": through, "which": which, "getopt": getopt,
		"sha1sum": sha1sum, "sha256sum": sha256sum, "sha512sum": sha512sum,
	} {
		table[name] = newFunc(f)
	}
	return table
}
