// Package filemode has the modes of files as POSIX numbers them, st_mode, which are what archives and messages carry; io/fs numbers them in its own way.
package filemode

import "io/fs"

// The bits of a mode that are no permissions.
const (
	SetUID = 0o4000
	SetGID = 0o2000
	Sticky = 0o1000

	typeBits = 0o170000
	regular  = 0o100000
)

var bits = [...]struct {
	posix uint32
	mode  fs.FileMode
}{{SetUID, fs.ModeSetuid}, {SetGID, fs.ModeSetgid}, {Sticky, fs.ModeSticky}}

var types = [...]struct {
	posix uint32
	mode  fs.FileMode
}{
	{regular, 0}, {0o040000, fs.ModeDir}, {0o120000, fs.ModeSymlink}, {0o010000, fs.ModeNamedPipe}, {0o140000, fs.ModeSocket},
	{0o060000, fs.ModeDevice}, {0o020000, fs.ModeDevice | fs.ModeCharDevice},
}

// ToPOSIX gives type, permissions, setuid, setgid and sticky bits. A type that POSIX lacks is told as a regular file.
func ToPOSIX(m fs.FileMode) uint32 {
	out := Bits(m)
	for _, t := range types {
		if m.Type() == t.mode {
			return out | t.posix
		}
	}
	return out | regular
}

// Bits is ToPOSIX without the type.
func Bits(m fs.FileMode) uint32 {
	out := uint32(m.Perm())
	for _, b := range bits {
		if m&b.mode != 0 {
			out |= b.posix
		}
	}
	return out
}

// FromPOSIX turns what ToPOSIX or Bits gives back. An unknown type is a regular file.
func FromPOSIX(mode uint32) fs.FileMode {
	out := fs.FileMode(mode) & fs.ModePerm
	for _, b := range bits {
		if mode&b.posix != 0 {
			out |= b.mode
		}
	}
	for _, t := range types {
		if mode&typeBits == t.posix {
			return out | t.mode
		}
	}
	return out
}
