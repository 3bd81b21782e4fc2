// Package gardentest starts the servers that tests of the Garden plugin need: a real Baggageclaim, and runcgarden, a Garden server that makes
// real containers with runc. It is for test files only, and for Linux only. Start is where to begin: the servers are private to a test, on
// loopback ports and in a directory of their own, and can be killed and started again. Proxy breaks connections to them on purpose, Busybox is a root
// for containers, and StartHoudini starts another Garden server, with great care.
//
// The programs are built by `make deps`, and the servers need root and runc. A test that lacks any of these is skipped, and fails under CI=true.
//
// Nothing here knows what a Slipway plugin makes of Garden: that is the plugin's own.
package gardentest
