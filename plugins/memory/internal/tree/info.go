package tree

import (
	"io/fs"
	"time"
)

// attr is what one can know of a node.
type attr struct {
	ino, dev uint64
	mode     fs.FileMode
	uid, gid uint32
	nlink    uint32
	size     int64
	mtime    time.Time
	target   string // of a symlink
	xattrs   xattrs // of a node that is to be made
}

// info implements fs.FileInfo.
type info struct {
	name string
	attr
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return i.mtime }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) String() string     { return fs.FormatFileInfo(i) }

// Node identifies what the info is of, on every platform: nodes are the same if dev and ino are.
func (i info) Node() (dev, ino uint64, links uint32) { return i.dev, i.ino, i.nlink }

// Sys returns a *syscall.Stat_t on Linux and macOS and nil elsewhere.
func (i info) Sys() any { return i.sys() }

// entry is an info as fs.DirEntry.
type entry struct{ info }

func (e entry) Type() fs.FileMode          { return e.mode.Type() }
func (e entry) Info() (fs.FileInfo, error) { return e.info, nil }
func (e entry) String() string             { return fs.FormatDirEntry(e) }
