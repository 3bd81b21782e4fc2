// Package engine runs containers on this machine through the program runc: create, run a command in one, kill, delete, tell how one is.
//
// It knows nothing of Slipway. What it keeps lies below one directory: runc's own state, and a bundle for each container. Read
// engine.go first, then spec.go (what a container is), exec.go (a command in it) and delete.go (how it goes).
//
// It needs root, runc 1.1 or later, and cgroups mounted at /sys/fs/cgroup: version 1, version 2 or both. A limit holds where its
// controller is there, which [Engine.Controllers] tells: on version 1 that is a mount of its own, on version 2 a word in
// cgroup.subtree_control of the root, as systemd writes it; where it is missing, boot with cgroup_enable=memory, or write
// "+memory +pids +cpu" into that file. Creating with a limit that cannot hold is an error.
//
// A limit of disk is a tmpfs over the container's root: it holds on any file system, but takes memory for what is written.
//
// There is no seccomp profile here. Containers have a root user of their own only with Spec.UIDs and Spec.GIDs.
package engine
