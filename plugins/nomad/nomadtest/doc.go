// Package nomadtest starts real Nomad agents for tests, runs jobs on them, and takes away what they leave behind. It is for test files only, and
// for Linux only. Start is where to begin: each agent is server and client in one, private to its test, on loopback ports of its own.
// StartCluster has a server and clients of it. An agent may have a Docker daemon of its own, want tokens, or speak TLS only: see Options.
//
// The agent's program is built by `make deps`, and it needs root: without it Nomad has no exec driver, and with control groups of version 1 its raw_exec
// driver crashes on the first exec. Docker is Debian's docker.io. A test that lacks one is skipped, and fails under CI=true.
//
// Nothing here knows what a Slipway plugin makes of Nomad: that is the plugin's own.
package nomadtest
