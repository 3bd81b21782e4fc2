// Package launch runs a plugin: it finds the program, starts it in a clean environment, talks it into a session, watches
// it, restarts it, and leaves nothing behind.
//
// [Start] gives a [Plugin], which one goroutine of its own owns. [Plugin.Session] waits for a running plugin or says at
// once why there is none; [Plugin.State] tells what is known at any time, the exit code or signal and the last output of the
// process that ran before included. A plugin is presumed hostile to its host's health, not to its data: whatever it prints,
// holds, leaks or refuses to do, every wait here is bounded and the host lives on.
//
// What is executed is what the configuration names ([Resolve]), nothing else; with a checksum, the very file that was
// checked. It begins with the descriptors 0, 1 and 2, and on Linux with the file that was checked as 3: whatever else the program that
// embeds this package has open stays there, also what it got from its own caller.
//
// A plugin cannot outlive its host: its standard input is a pipe that only the host holds open, and on Linux the kernel
// kills it when the host dies. It leads a process group of its own, which is killed as a whole when it ends: a plugin that
// wants a child to survive must put it into another session.
//
// go-plugin is used for its handshake only. Of its client's other parts, Kill and Ping have no deadline, exits are seen only
// once every holder of the pipes is gone, and a line on standard error can panic the host; none of them is called.
//
// This package knows nothing of workers, containers or placement, and decides nothing about them.
package launch
