//go:build !linux

package main

import "io/fs"

// systemVerbs are those of Linux, which say here that they cannot be.
func systemVerbs() map[string]verb {
	all := make(map[string]verb)
	for _, name := range []string{"trap", "mark", "ignore", "orphan", "orphans", "spawn", "wait", "processes", "no-zombies", "await-state", "forks",
		"descriptors", "open-files", "hold", "keep", "mkfifo", "umask", "tty", "size", "resized", "raw", "noecho"} {
		all[name] = func([]string) (int, error) { return 0, errCannot }
	}
	return all
}

func owner(fs.FileInfo) (uid, gid, links int) { return -1, -1, -1 }

// plainSignals has nothing to do: no signals reach the program.
func plainSignals() {}
