// Package sdk is the contract between a host and the runtimes that it drives.
//
// A plugin author implements [Runtime] and [Worker], fills a [Plugin], and hands it to rpc.Serve in package
// sdk/rpc. Nothing here knows of gRPC, of processes or of a host's data: this package imports the standard library only
// and holds types, their validation, the error classes and the configuration schema. Code that talks to anything
// belongs elsewhere.
//
// # Words
//
// A worker is one place with one store of volumes, where containers run: a Garden host, a Nomad node, a memory. A
// container is where processes run; a process is one command in it; its journal is what it wrote, with positions. A
// volume is a tree of files on one worker, open or sealed.
//
// # Rules
//
// The numbers are stable: conformance cases name the rule that they check.
//
//  1. Identity. The host makes every id ([CheckID]); an id is used once, for ever. Creating a volume or a container
//     and starting a process carry a random [Token] that the runtime keeps beside the thing. The same id with the same
//     token is the same thing, and the call succeeds; a half-made container is completed or rebuilt. The same id with
//     another token is [AlreadyExists]. Specs are never compared. Seal and destroy are idempotent; destroying what is gone
//     succeeds. After an error of StreamIn the content of the volume is undefined. Signals are sent at most once. A start
//     that was [Invalid] leaves no record.
//  2. Contexts bound the call, never the process. Cancelling StartProcess or FollowProcess leaves the process alone.
//  3. Exactly once. StartProcess with an id and token that ran never runs again. A process is running, exited or
//     abandoned (its record has a start but no exit, and nobody is left who could write one); the states come only from
//     the record kept with the container. [NotFound] says what was not found: of a process, it comes only from a live
//     container's own record and means that it was never started. In a container that is gone but still listed
//     ([ContainerGone]), starting is FailedPrecondition with [ReasonDead]; what its record tells can still be read, and where it
//     cannot, the answer is FailedPrecondition with [ReasonRecordLost]. Following an abandoned process delivers what is
//     journalled, then FailedPrecondition with [ReasonAbandoned]. That a process is lost is for the host to say, never for a
//     plugin. After a start was sent, any error but Invalid, Unsupported, FailedPrecondition or Exhausted leaves open
//     whether it took effect; the host asks ListProcesses.
//  4. Incarnation. [Status] names the store of containers and the store of volumes by an id each. Empty means unknown at
//     the moment, never a change. What is missing under the same incarnation is only gone after a grace and a second list;
//     under a new incarnation it is gone at once. A runtime that cannot tell keeps the id constant.
//  5. Output is one journal per process: exact per stream, in the order observed across streams, bytes and not lines.
//     Only acknowledged bytes may be dropped. Unacknowledged ones are kept up to [ProcessSpec.Spill]; beyond it
//     [ProcessSpec.WhenFull] says whether the writer blocks or the oldest bytes make room and leave a gap. Following below
//     an acknowledged position that was dropped is FailedPrecondition with [ReasonOutputGap] and the first position kept. The
//     newest follower wins whole; the older one ends with [ReasonSuperseded] and its acknowledgements no longer count.
//  6. Exit comes when the leader has ended and its pipes are at their end, or two seconds later ([Exit.OutputCut]); what
//     is written after that is thrown away. Waiting for room in the journal is not being late: what was in the pipes when the
//     grace ended is journalled, and the exit waits for it. Every journalled byte is delivered before the exit and none after. Once
//     exited and acknowledged, the record shrinks to a tombstone that holds the Exit as long as the container lives. A
//     container takes [MaxProcesses]; the next one is FailedPrecondition with [ReasonProcesses].
//  7. Stdin. The keeper of a process gives each follower that has stdin a generation and counts the bytes that it took;
//     bytes of an older generation are refused. The end of stdin is said, never inferred from a lost connection. A
//     follower keeps what it sent and was not taken, at most [MaxStdinAhead], and reads its source no further.
//  8. Signals go to the leader's process group, KILL to its whole tree; after the exit they do nothing. DestroyContainer
//     kills at once, and is done only when nothing of the container can write any more; a graceful stop is composed by the
//     host. A follower of a process in a destroyed container ends with
//     NotFound of the container.
//  9. Volumes are open, then sealed. Open ones are written, by StreamIn or by containers that mount them. Sealing while
//     a process lives in a container that mounts the volume writable is FailedPrecondition with [ReasonInUse]; afterwards no process
//     starts in a container with a sealed writable mount ([ReasonSealed]). Only sealed volumes are cloned, streamed to other
//     workers or used as images. A clone is a new, open volume. The host, for its part, mounts an open volume writable in
//     one container at a time, streams only into volumes that nothing mounts, and never destroys what is mounted or has
//     living clones. Volumes that a plugin makes for itself belong to a container, die with it and are never listed; until
//     the last of them is gone, that container is. Archives keep modes, setuid bits, symbolic and hard links, empty
//     directories, modification times and numeric owners; whatever an archive says, nothing outside the volume changes.
//     An archive without its end is damaged, even where it ends between two entries. Streaming out one file gives one
//     entry.
//  10. Labels are set at creation and come back from the lists ([CheckLabels]). The host puts [LabelInstallation] on all
//     that it makes.
//  11. Paths in mounts are absolute when they come to a plugin; the host has resolved them. Paths inside a volume are
//     relative, slash-separated and never leave it.
//  12. Times that a plugin reports are for display only. The zero time is unknown.
//  13. Secrets. Environment comes with StartProcess only; it is never stored, logged, or put into an error.
//  14. Errors are of a closed set of classes ([Class]); errors.Is works on both sides of the wire. Errors of the caller's
//     own reader, writer or callback come back unchanged, and those of the context as context.Canceled or
//     context.DeadlineExceeded.
//
// # Features
//
// Whatever is not needed of every runtime has a [Feature] name. A worker can do what its type implements and its Status
// names. What is named must work; what is not named must answer [Unsupported]; nothing asked for is ever silently
// ignored.
//
// # Concurrency
//
// Every method of every interface here may be called from many goroutines at once. Callbacks of one call are made one
// after another, from whatever goroutine, and never after the call has returned. Specs, filters and what is in them belong to the
// caller and are not changed; what a plugin keeps of their slices and maps it copies. What a call returns or hands to a
// callback belongs to whoever gets it, but for [Record.Data].
package sdk
