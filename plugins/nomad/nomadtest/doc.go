// Package nomadtest starts real Nomad agents for tests, runs jobs on them, and takes away what they leave behind. It is for test files only, and
// for Linux only. Start is where to begin: each agent is server and client in one, private to its test, on loopback ports of its own.
//
// The agent's program is built by `make deps`; a test that does not find it is skipped, and fails under CI=true. As root the drivers exec and
// raw_exec are there; without root Nomad runs no exec driver, and Agent.HasExec says so.
//
// Nothing here knows what a Slipway plugin makes of Nomad: that is the plugin's own.
package nomadtest
