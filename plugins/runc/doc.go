// Package runc is a whole plugin for the machine that it runs on: containers by runc, volumes as directories, processes by the shim.
//
// It is what a runtime looks like that can only "exec a command in a container". Read it in this order: plugin.go is what the operator
// sets, worker.go the worker, containers.go how containers come and go, processes.go the little that sdk/shim leaves to do. Volumes are those of
// sdk/volumedir, records and locks those of sdk/shelf. A plugin without wishes of its own is shorter by sdk/machine: see examples/chroot.
//
// All that it knows is below one directory, so a plugin that was killed loses nothing, and two plugins may serve one directory at
// once. It touches nothing outside, but for cgroups of its containers.
//
// # What it is not
//
// Root in a container is root on the machine, with docker's capabilities and without a seccomp profile; a container that is not
// hermetic uses the machine's network. A volume is copied when it is cloned, by reflink where the file system can.
package runc
