// Package wasi runs WASI programs (wasip1 commands, core WebAssembly) of the memory runtime. The machine is
// github.com/tetratelabs/wazero; what a program sees is a [tree.Namespace], its arguments, environment and streams, the clocks, and
// random bytes.
//
// Unlike the shell this is a boundary: a program is bounded in memory, can be ended at any time, and whatever it does wrong ends
// nothing but itself. What it rests on is wazero's compiler, or, where [Options.Interpret] says so, its interpreter.
//
// What WASI lacks, programs lack: processes, pipes, sockets, locks, signals, owners and permissions. Files that they make have the
// permissions of the umask. A full volume shows as EIO, a rename between volumes as ENOTSUP. The current directory is what the
// variable PWD says, which programs made with Go go by; to those made with wasi-libc, as C's and Rust's, relative paths begin at /.
//
// How it is built:
//
//   - engine.go, run.go: the engine, and the life of one program
//   - cache.go: compiled programs by their content
//   - vet.go: what is looked at, and bounded, before anything is compiled
//   - memory.go: limits of linear memory
//   - fs.go, file.go, errno.go: a namespace as wazero wants file systems
//   - stdio.go: streams that end with their program
package wasi
