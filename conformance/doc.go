// Package conformance says whether a runtime keeps the contract of package sdk.
//
// A [Case] is data: which promises it checks, how binding that is, what it needs, and a function that uses one [sdk.Worker] as a
// host would. [Cases] gives all of them. There are two fronts on one engine: [Run] makes a subtest of every case, for
// whoever writes a plugin in Go; [Execute] reports results to a function, for a program such as `slipway conformance run`.
// Nothing is registered at import and nothing is global, so a process may run the suite as often as it likes.
//
// [Rules] gives what the contract promises, of which sdk/RULES.md is made: each promise has a number and a letter, which cases cite.
//
// A [Target] is what is tested: a runtime in this process, or a plugin's program. The few programs that cases run in containers
// come from its [Commands]; [Shell] makes them of `sh -c` scripts.
//
// # How a case is written
//
// Expectations are literal: what a tar stream must hold is a table of [Entry], what a process must print is a string, and
// neither is computed by the code under test. A case decides by classes and reasons of errors, never by their text, and tries
// nothing twice that should work at once. What it creates through [C.W] is cleaned up behind it, newest first, and nothing
// else is touched. What cannot be seen on a target is reported as not observable rather than passed.
//
// Package mutant, beside this one, holds broken runtimes that the cases must tell from a good one.
//
// This package knows the contract and host/launch only; no plugin is imported outside of tests.
package conformance
