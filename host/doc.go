// Package host runs commands in containers on whatever workers its plugins offer.
//
// A program opens one [Host] on a state directory and asks it for containers by owner, for processes in them, and for
// artifacts to go in and come out; [Host.Run] does all of that for a job. The host picks the worker, moves the data, starts
// each command exactly once, keeps its output and exit, and cleans up; and it does so across crashes of the plugins, of
// the servers behind them, and of itself.
//
// What users hold lives here, with its validation, ids and errors: [Host], [Container], [Process], [Artifact]. The
// packages below host are leaves that know neither of it nor of each other: config and job read files, launch keeps plugin
// processes, pool places, stream moves bytes, spool keeps output, store keeps rows, reap decides what may go.
//
// # How it survives
//
// Every change on a worker is three steps: a row in a state on the way (with its token), the call, the row in its new state. A new
// host on the same state directory finds the rows that are on the way and settles each by what the worker lists.
package host
