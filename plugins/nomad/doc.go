// Package nomad is the runtime for a Nomad cluster: every client node of a pool is a worker, and a container is a job of one allocation on it.
//
// Read it in this order: config.go and storeconfig.go are what the operator sets, pool.go turns nodes into workers, node.go is one of them, status.go how it
// is; job.go is a container in Nomad's words, create.go and containers.go its life, place.go what Nomad says of its place, exec.go how commands get in.
// The process half is sdk/shim's: the shim is each job's command.
//
// Volumes are in a store on each node: the program of package store, run as a system job, which storejob.go registers when volumes are first needed.
// nodestore.go is the way to it, and volumes.go passes on what is asked. Docker mounts them into containers (mounts.go, nested.go, ownroot.go), and with raw_exec the
// shim does (sdk/shim's Root); exec mounts nothing, and refuses containers with volumes.
//
// The store's job belongs to nobody alone: all plugins on a cluster that keep volumes in the same host volume of the same nodes use one, whatever their
// installation, as the volumes' labels tell whose they are. No plugin takes it away, for volumes are in it; that is for the operator, with nomad job stop.
//
// Nothing is kept on the plugin's own disk: all that there is to know of a container stands in its job and in its allocation, and of volumes in the
// store, so a plugin that was killed loses nothing.
package nomad
