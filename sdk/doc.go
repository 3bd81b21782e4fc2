// Package sdk is the contract between a host and the runtimes that it drives.
//
// A plugin author implements [Runtime] and [Worker], fills a [Plugin], and hands it to rpc.Serve in package
// sdk/rpc. Nothing here knows of gRPC, of processes or of a host's data: this package imports the standard library only
// and holds types, their validation, the error classes and the configuration schema. Code that talks to anything
// belongs elsewhere.
//
// # Start here
//
// To have a plugin this evening, follow package sdk/guide: it leads from an empty directory to a program that passes the conformance suite's core.
// Which packages do the greater part of the work for yours depends on what your runtime is:
//
//   - It makes containers on the machine where the plugin runs: package machine asks three functions of you, and does the rest.
//     examples/chroot is such a plugin in 131 lines, plugins/runc one that people use.
//   - Its containers are elsewhere, or it has volumes of its own, and it can execute a command in a container: package shim makes processes of that,
//     with all that the contract says of them. plugins/garden is such a plugin.
//   - Your plugin, or an agent of yours, has the pipes of each process: package keeper keeps output, exit and stdin. plugins/memory is such a plugin.
//   - Volumes are directories that the plugin reaches: package volumedir has them whole, package volumetar only their archives.
//   - It keeps records on a disk: package shelf has them survive a kill, and lets two plugins at one directory.
//
// rpc.Serve checks each request before your code sees it, as [Checked] does. In tests, package rpc/rpctest puts the wire between a runtime and its user inside one
// process, and package conformance runs the suite on a worker or a program; slipway conformance run does so from a shell. For another
// language, sdk/proto/slipway/runtime/v1alpha1/plugin.proto says where to begin.
//
// # Words
//
// A worker is one place with one store of volumes, where containers run: a Garden host, a Nomad node, a memory. A
// container is where processes run; a process is one command in it; its journal is what it wrote, with positions. A
// volume is a tree of files on one worker, open or sealed.
//
// # Rules
//
// There are fourteen, each here in a sentence or two. RULES.md beside this file has all that they promise, one numbered promise
// after the other, with the conformance cases that hold it; what a call on a container is answered with in each state; and what the
// host does with each class of error. The numbers are stable: code, cases and reports name a rule or a promise by them.
//
//  1. Identity. The host makes every id and gives each creation a random token. The same id with the same token is the same
//     thing, another token is [AlreadyExists], and destroying what is gone succeeds.
//  2. Contexts. A context, on the wire the call's deadline and cancellation, bounds the call and never the process.
//  3. Exactly once. A process that ran never runs again. What is known of it comes only from the record that is kept with its
//     container, and only the host says that it is lost.
//  4. Incarnation and status. [Status] names the store of containers and the store of volumes by an id each. What is missing
//     under the same id is believed gone only after a grace, and under a new one at once.
//  5. Output. Output is one journal for each process: exact per stream, in the order observed across streams, bytes and not
//     lines. Only acknowledged bytes may be dropped, unless the process was started so that the oldest make room. The newest
//     follower wins whole.
//  6. Exit. The exit comes when the leader has ended and its output is at its end, or two seconds later. Every journalled byte
//     comes before it and none after. It is written once and told as long as the container lives.
//  7. Stdin. The runtime counts the stdin that it took over all followers and gives each follower that has stdin a generation.
//     The end of stdin is said, and never inferred from a lost connection.
//  8. Signals and the end. Signals go to the leader's process group and KILL to its whole tree; after the exit they do nothing.
//     DestroyContainer kills at once, and is done only when nothing of the container can write any more.
//  9. Volumes. A volume is open and written, then sealed and never changed. Only sealed volumes are cloned, streamed to other
//     workers or used as images. Archives keep what a tree is, and whatever one says, nothing outside the volume changes.
//  10. Labels and lists. Labels are set at creation and come back from the lists. The host puts slipway.installation on all that
//     it makes.
//  11. Paths and commands. Paths in mounts are absolute when they come to a plugin, paths inside a volume are relative and never
//     leave it, and a command is a list of arguments that begins in a known place.
//  12. Times. Times that a plugin reports are for display only. The zero time is unknown.
//  13. Environment and secrets. The environment comes with StartProcess only. It is never stored, logged, or put into an error.
//  14. Errors and features. Errors are of a closed set of classes, which cross the wire. A caller's own errors and those of a
//     context come back as they are. What a worker names as a feature works, and what it does not name is [Unsupported].
//
// # Features
//
// Whatever is not needed of every runtime has a [Feature] name. A worker can do what its type implements and its Status
// names. What is named must work; what is not named must answer [Unsupported]; nothing asked for is ever silently
// ignored. What an archive may lose on its way in, [Worker.StreamIn] says.
//
// # Concurrency
//
// Every method of every interface here may be called from many goroutines at once. Callbacks of one call are made one
// after another, from whatever goroutine, and never after the call has returned. Specs, filters and what is in them belong to the
// caller and are not changed; what a plugin keeps of their slices and maps it copies. What a call returns or hands to a
// callback belongs to whoever gets it, but for [Record.Data].
package sdk
