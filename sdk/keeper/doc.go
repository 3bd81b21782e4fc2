// Package keeper is the journal of one process: the part of the contract that is the same for every runtime whose plugin, or whose
// agent in the container, sees a process's pipes itself. It holds rules 5 to 7 of package sdk and the follower's part of rule 3.
// Starting, signalling and finding processes are the runtime's, and do not belong here; this package imports sdk and the standard
// library only.
//
// A runtime makes a [Journal] for each process it starts, and is the process's side of it:
//
//   - what comes out of the process goes into [Journal.Write], from one goroutine for each stream; under sdk.BlockWriter a full
//     journal holds that goroutine, and thereby the process
//   - [Journal.ReadStdin] is what goes into it; [Journal.CloseStdin] says that it reads no more
//   - when the leader has ended and the outputs have too (or two seconds later), [Journal.Exit]; if the keeper loses
//     the process, [Journal.Abandon]; when the container is destroyed, [Journal.Abort]
//
// Worker.FollowProcess is [Journal.Follow], and the rest of the rules follows from that.
//
// # Where the records are
//
// In memory, or in a [Store]: [Segments] keeps them in files, which [OpenSegments] and [Ended] read when the keeper has been
// killed. When a process has exited and everything was acknowledged nothing is left of them but the position of the end.
package keeper
