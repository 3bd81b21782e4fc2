// Package garden is the runtime for a Garden server and the Baggageclaim server beside it: what a Concourse worker consists of.
//
// Read it in this order: config.go is what the operator sets, worker.go the worker, status.go and probe.go how it finds out what its servers can,
// create.go, room.go and containers.go the life of a container, images.go and mountpoints.go where its root comes from, processes.go the little that
// sdk/shim leaves to do, remains.go what can still be told of a container that went behind our back. Volumes are internal/claim's, the calls on Garden
// internal/gdn's. README.md is for the operator.
//
// Nothing is kept on the plugin's own disk: all that there is to know of a container stands in the properties of the container and of its volumes,
// so a plugin that was killed loses nothing.
//
// # What a container consists of
//
// A Garden container whose handle is the container's id; a volume ID.root, cloned from the image, as its root; and a volume ID.slipway, cloned from
// one that holds the shim: its bin is mounted read-only, its scratch writable. The volume knows that the container was made whole, so that one which
// went behind our back is not mistaken for one that never was.
package garden
