// Package memory is the runtime that needs nothing: volumes are trees of files in memory, containers are trees put
// together, and processes are WASI programs and shell scripts, which run inside the plugin itself.
//
// It is the reference for whoever writes a plugin, what Slipway runs on when nothing is configured, and the runtime of
// the host's own tests. Read it in this order: runtime.go and worker.go are the contract's two interfaces, volumes.go,
// containers.go and processes.go are its three kinds of things. What a process and its follower share is package sdk/keeper's
// journal. plugin.go turns all that into a plugin; world.go serves the same runtime from a process that outlives plugin and
// host, and proxy.go is a plugin in front of such a world.
//
// Files, shell and programs live in packages of their own, internal/tree, internal/shell with internal/tools, and internal/wasi,
// which know nothing of the contract; nothing here may reach the machine's files, environment, programs or network.
//
// # What it is not
//
// The shell is for scripts that one trusts. It keeps to the container's files, but it runs in the plugin's own process
// and bounds neither time nor memory of a script, so it is no boundary against a hostile one. It can be switched off, for all
// workers or one: what is left are WASI programs, whose machine is a boundary, and which a container can limit in memory (limits.memory
// and exit.oom are named then). A program's native stack, at most some 100 MB, does not count there.
//
// Everybody in a container is root, nothing else limits a container but the memory for all volumes, and there is no network
// at all. Signals other than KILL reach a script between its commands, and end a program, which cannot handle them.
package memory
