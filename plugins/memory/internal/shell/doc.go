// Package shell runs one process of the memory runtime: a POSIX shell script,
// or one of the utilities of package tools. The interpreter is
// mvdan.cc/sh/v3/interp; what a process sees is a [tree.Namespace], the
// environment it is given, and its streams.
//
// It is hardened, for scripts that one trusts, and no boundary against hostile
// ones. Every way in which the interpreter reaches for the machine's files,
// users, environment and programs is closed, and each has a test. But a script
// can exhaust the memory of the plugin (x=$x$x), and a panic of the interpreter
// in a pipeline or background job ends it. Those that are known are refused
// before they happen, so is nesting and recursion that would overflow the
// stack; nobody can promise that there are no others. Programs that one does
// not trust belong into the WASI runtime, or another plugin. [Confine] takes
// from the plugin's process what it never needs, where the kernel can.
//
// What is known to remain: a script that goes out of its way (through an
// indirect expansion of "$" or PPID) learns the process id of the plugin;
// RANDOM, time and date are the machine's.
//
// The language is bash's, as far as the interpreter knows it. Not there are:
// process substitution, file descriptors from 3 on, <> and noclobber,
// PIPESTATUS, SECONDS and FUNCNAME, ${x/#a/b} and ${x/%a/b}, declare -i, -u, -l
// and -F, wait -n and %job, coproc, traps on DEBUG and RETURN, and EXIT traps of
// subshells. The last command of a pipeline runs in the shell itself, and
// assigning to a read-only variable does not end it. Splitting $x at an IFS of
// other characters than blanks drops empty fields (read keeps them). Under set
// -u an array must be declared with a value: declare -A m=().
//
// How it is built:
//
//   - engine.go: what can be run, and where it is found
//   - run.go, process.go: one process, its streams, signals and end
//   - parse.go: the caps on scripts, and what is rewritten in their text
//   - unit.go, handlers.go: one shell, and the interpreter's ways out
//   - call.go, builtins.go, jobs.go, trap.go, type.go, read.go: builtins that are vetted or replaced
//   - errexit.go: lists whose failure must not end a script
//   - environ.go, halt.go, signal.go, stream.go, fields.go: leaves
//   - landlock_linux.go: Confine
package shell
