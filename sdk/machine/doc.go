// Package machine makes a whole plugin of three functions: one that makes a container on the machine that the plugin runs on, one that
// executes a command in it, one that destroys it. All the rest of the contract is here, and in what this package is made of: volumes
// (package volumedir), processes (package shim), records (package shelf), and what holds them together: tokens, half-made containers,
// seals, lists, incarnations, roots, mount points, and what becomes of all that when the plugin is killed.
//
// A plugin's main is then
//
//	rpc.Serve(machine.Plugin("mine", "0.1.0", open))
//
// where open makes [Functions] and [Options] of a worker block's settings. Package guide tells how, step by step; examples/chroot is what
// comes of it, a plugin in one file. To put a machine's worker into a runtime of one's own, use [Open] and [NewRuntime].
//
// # Who does what
//
// For each container there is a directory with its root, a copy of its image or of what [Options.Root] makes. The program slipway-shim is
// in it, at /slipway/shim, with what it records below /slipway/scratch; volumes' mount points and the container's working directory are made, and
// symbolic links on the way to them followed as the container would. The functions only have to
//
//   - run [Container.Command] there, with the volumes mounted, so that it outlives the plugin;
//   - run further commands beside it;
//   - end all of it.
//
// The machine calls Destroy for what Create has not finished, too: when Create failed, or when the plugin was killed in it. So Create notes
// what Destroy has to know, in [Container.Dir], before anything could be left behind.
//
// What a container may do to the machine is up to the functions: root in a bare chroot is root on the machine.
//
// It is made for Linux.
package machine
