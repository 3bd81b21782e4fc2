// Package shim makes the process half of an [sdk.Worker] out of one function: [Exec], which runs a command in a container, as any runtime
// can. What is missing in such an exec, a journal, an exit that can be trusted, signals, stdin that survives a lost connection, a
// small program in the container adds, of which the author of a plugin needs to know:
//
//   - where it is: a static binary (make build makes bin/slipway-shim-linux-ARCH of sdk/shim/cmd) that CreateContainer puts into each
//     container, read-only, at [Options.Program];
//   - its scratch volume: a private directory of each container, mode 0700, at [Options.Scratch]. It outlives processes and keeps
//     their journals and exits, and the program's log, SCRATCH/log. Only one container ever sees it;
//   - how it starts, once per container: as the container's own command, "shim serve SCRATCH", after which CreateContainer calls
//     [Driver.Ready]; or, where the runtime has a command of its own ("shim pause" is one that needs nothing), by [Driver.Start], after which CreateContainer marks the container
//     as made, by a label or property of the runtime. What bears no mark is half made: build it anew. What bears it is never started
//     again: its processes would be lost without anybody knowing. A runtime that may do so all the same tells by [Options.Recognise].
//
// Where the runtime gives containers no root of their own, as a plain process of the machine has none, [Root] has the program make one, in which volumes are mounted.
//
// A worker then embeds a *[Driver], which brings StartProcess, ListProcesses, FollowProcess, SignalProcess and ResizeProcess, and has
//
//   - StartProcess wrapped: it refuses containers that are half made, dead, or mount a sealed volume writable, and sets Dir to the
//     container's where the spec has none, for the program does not know that;
//   - Exec answer NotFound of a container from the moment its DestroyContainer begins, and DestroyContainer call [Driver.Forget] once it
//     is gone: a follower that loses its relay meanwhile opens another, and must hear that there is no container (rule 8);
//   - SealVolume call [Driver.Quiesce] on the containers that mount the volume writable (rule 9);
//   - Status name the features of [Info], which say what the program can do in these containers. It is asked before there is any: make one
//     for that, once;
//   - StreamIn, StreamOut and the methods of [sdk.FileReader] use those of the driver where the runtime has no better way to
//     a volume than a container that mounts it;
//   - Close call [Driver.Close] last.
//
// # What it costs
//
// One exec per container that is in use, shared by all calls, and one more for each archive. It is closed when no call has used it for
// a while and opened again on demand.
//
// # Trust
//
// Whoever is root in a container owns its records, and can answer whatever he likes: that is a wrong exit there, and nowhere else.
// The driver believes nothing but well-formed answers, keeps less than a few megabytes per call whatever comes, waits for nothing
// without end, and has a container say nothing about another, nor that it does not exist. An answer that no
// program of ours gives is Internal, with the relay thrown away.
package shim
