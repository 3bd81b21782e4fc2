// Package tree keeps file trees in memory and composes them into the file
// system that a container sees.
//
// A [Tree] is one volume. It is persistent: [Tree.Clone] is O(1), and a clone
// and its original are isolated from each other while both go on being
// written. What they have in common is kept, and charged to their [Budget],
// once. A [Namespace] is a root tree with other trees mounted in it; it
// resolves paths as a kernel would, but can reach nothing else than its trees.
//
// How it is built, from the bottom up:
//
//   - budget.go: what all trees together may take
//   - radix.go: a persistent array, for a tree's inodes and a file's chunks
//   - names.go: a persistent sorted map, for the names in a directory
//   - inode.go, chunk.go: one file, directory or symlink; a file's bytes
//   - tree.go, ops.go: the tree, its lock, and the operations on (directory, name)
//   - namespace.go, walk.go, nsops.go, file.go: mounts, paths, open files
//   - read.go: reading a tree by itself
//   - tarout.go, tarin.go, tarops.go, xattr.go, sparse.go: a tree as a tar stream and back
//
// Every shared thing counts its holders: a holder writes in place what only it
// holds, all the way from its root, and copies what it shares. The count is
// also what returns the charge to the budget, exactly when the last holder
// lets go.
//
// There are no permission checks: whatever runs in a container runs as its
// root. Modes and owners are kept and reported, nothing more, and extended
// attributes are kept from archive to archive. FIFOs, devices and sockets are
// not offered.
//
// This package knows files only. It imports the standard library and nothing
// of this module, so that neither the contract nor a runtime can leak in.
package tree
