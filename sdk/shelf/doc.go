// Package shelf keeps things in directories: for each a directory of its own with a record, a lock, and whatever else its owner puts
// there. It is what a plugin needs that keeps volumes or containers on a disk, and must find them again after it was killed.
//
// Nothing is kept in memory. So a process that is killed at any moment loses nothing that was written, and several may use
// one shelf at once: a plugin's next start may come before the last one has ended. Locks hold between processes and between
// goroutines alike, and end with the process that holds them.
//
// A thing is there once it has a record. What was begun and has none is not there: [Shelf.Sweep] takes it away. A thing that is
// taken away is gone at once, its files some time later.
//
// It is made for Linux.
package shelf
