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
// The language is bash's, as far as the interpreter knows it. Descriptors from 3
// on, process substitution, PIPESTATUS, FUNCNAME, ${x/#a/b}, declare -i and the
// precedence within [[ ]] it does not know: scripts are rewritten for these
// (rewrite.go). Not there are: <>, here-documents for descriptors from 3 on,
// 3>&4-, ${a[@]/#x/y} of whole arrays, declare -u and -l: a script with one of
// these is refused before anything of it runs. These fail when they are reached:
// export -f, coproc, wait -n and %job, noclobber, traps on DEBUG and RETURN, and
// EXIT traps of subshells. PIPESTATUS is the last pipeline's, never a single
// command's, and the stages of a script that mentions it are subshells; in any
// other the last command of a pipeline runs in the shell itself. What is read
// from a descriptor by another command than read is read ahead. Setting SECONDS
// stops it. Assigning to a read-only variable does not end a script. Splitting
// $x at an IFS of other characters than blanks drops empty fields (read keeps
// them). Under set -u an array must be declared with a value: declare -A m=().
//
// How it is built:
//
//   - engine.go: what can be run, and where it is found
//   - run.go, process.go: one process, its streams, signals and end
//   - parse.go: the caps on scripts, and what is rewritten in their text
//   - unit.go, handlers.go: one shell, and the interpreter's ways out
//   - call.go, builtins.go, jobs.go, trap.go, type.go, read.go: builtins that are vetted or replaced
//   - rewrite.go, conditions.go, variables.go: what is rewritten because the interpreter lacks it
//   - descriptors.go, substitution.go, pipestatus.go: what that becomes
//   - errexit.go: lists whose failure must not end a script
//   - environ.go, halt.go, signal.go, stream.go, fields.go: leaves
//   - landlock_linux.go: Confine
package shell
