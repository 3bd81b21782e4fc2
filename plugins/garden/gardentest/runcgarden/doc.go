//go:build linux

// Command runcgarden is a Garden server for tests: the wire is that of code.cloudfoundry.org/garden/server, the containers are made by runc.
// It needs root, runc, cgroups, and the program garden-init beside its own or named by -init.
//
// It has what Concourse's containerd backend has and no more, so that a client which works here relies on nothing else: Ping, Create,
// Destroy, Containers, BulkInfo, Lookup; Run, Stop and the properties of a container. All else answers that it is not implemented. A process
// has neither a terminal nor limits of its own; Attach knows no process, and signals are refused. A program that is not there is an error of Run,
// one that is there and cannot be executed an error of Wait.
//
// Containers outlive the server, also one that was killed: the next on the same directory finds them, with their properties. Processes
// outlive the connections of those who started them, and the server; but its end is the end of their stdin and of their readers.
//
// As with every server that is built on garden/server, guardian included, output is thrown away, silently, which a client does not take in time: of each
// stream 4,000 writes are kept, and no process ever waits for its reader.
//
// With -like-concourse it answers as that backend does where guardian is kinder: its errors have no type, BulkInfo is missing, too, and a property whose value is empty
// is lost; and a container that could not be started is listed on, with its properties, until it is destroyed. With -like-guardian it keeps properties as guardian does: one that is killed has forgotten them, and does not list its containers any more,
// which run on and whose handles are taken. The soak puts the plugin to the real servers as well.
//
// What is not as guardian has it: a container whose NetOut rules are not empty has the machine's own network, and else none but a loopback; mount
// points that the root lacks are made, unless -strict-mounts is given, and then /proc, /sys, /dev, /tmp and /etc have to be there, too; there is no seccomp profile; nothing expires, whatever grace time is asked for.
package main
