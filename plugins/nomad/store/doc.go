// Package store is the program slipway-store, which keeps the volumes of one Nomad node: a directory of the node, served to the plugin and to the
// other nodes' stores. Package storenet says how one talks to it.
//
// Read command.go first, then server.go, which says who may come in; worker.go is what the plugin calls, session.go holds and seals volumes,
// peer.go sends them to other nodes.
//
// All that there is to know of a volume is in the directory (package volumedir). The certificate and the secrets are a process's own, so a store that was
// killed and started again is another one to talk to, with the same volumes. Two at once on one directory do each other no harm.
package store
