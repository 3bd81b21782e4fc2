//go:debug containermaxprocs=0

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

const (
	codeFailed = 121 // a thing that can be done went wrong
	codeUsage  = 122 // the arguments say nothing that the probe knows
	codeCannot = 123 // this build of the probe can never do it
)

// verb does one thing and gives the exit code. It returns where others may follow in a "seq".
type verb func(args []string) (int, error)

// errUsage says that a verb was given the wrong arguments.
var errUsage = errors.New("wrong arguments")

// errCannot says that the system that the probe was built for has no such thing.
var errCannot = errors.New("there is no such thing on this system")

func main() {
	plainSignals()
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) == 0 {
		return complain("", errUsage)
	}
	return one(args)
}

func one(args []string) int {
	switch args[0] {
	case "seq":
		return sequence(args[1:], ";")
	case "inner": // a sequence inside of one
		return sequence(args[1:], ",")
	}
	do, ok := verbs()[args[0]]
	if !ok {
		return complain(args[0], errUsage)
	}
	code, err := do(args[1:])
	if err != nil {
		return complain(args[0], err)
	}
	return code
}

// sequence does one thing after the other, up to the first that does not end with 0.
func sequence(args []string, separator string) int {
	for len(args) > 0 {
		end := slices.Index(args, separator)
		if end < 0 {
			end = len(args)
		}
		if end > 0 {
			if code := one(args[:end]); code != 0 {
				return code
			}
		}
		args = args[min(end+1, len(args)):]
	}
	return 0
}

func complain(what string, err error) int {
	fmt.Fprintf(os.Stderr, "probe: %s: %v\n", what, err)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "probe: it can %s\n", strings.Join(slices.Sorted(maps.Keys(verbs())), ", "))
		return codeUsage
	case errors.Is(err, errCannot):
		return codeCannot
	}
	return codeFailed
}

func verbs() map[string]verb {
	all := map[string]verb{
		"exit": exit, "print": printTexts, "args": printArgs, "env": printEnv, "report": report, "dir": printDir,
		"lines": lines, "pattern": pattern, "cat": cat, "take": take, "hash": hash, "gate": gate, "line": aLine, "talk": talk, "pid": printPID,
		"cat-file": catFile, "append": appendFile, "tree": tree, "owner": printOwner, "await": await, "fill": fill,
		"mkdir": mkdir, "rm": rm, "mv": mv, "write": writeFile, "chmod": chmod, "chown": chown, "symlink": symlink, "link": link, "truncate": truncate,
		"alloc": alloc, "sleep": sleep, "nap": nap,
	}
	maps.Copy(all, systemVerbs())
	return all
}
