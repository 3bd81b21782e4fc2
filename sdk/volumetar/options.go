package volumetar

import (
	"path"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// Options are how a [Root] takes archives. The zero value keeps all that is in them, as the contract asks for.
type Options struct {
	// DropOwners leaves all that Unpack makes with the user and group of this process. Setuid and setgid bits of files are then kept only
	// where the archive names that very user or group, and directories that were there before and belong to somebody else keep their
	// mode and time. Without it, an owner that cannot be given (for which a process must be root, or be that user) fails Unpack as Internal.
	DropOwners bool

	// NoDevices refuses device nodes in archives as Unsupported, even where they could be made.
	NoDevices bool

	MaxBytes   int64 // of all files of one archive together, holes included; zero: any number; more is Invalid with sdk.ReasonTooLarge
	MaxEntries int64 // of one archive; zero: any number; more is Invalid with sdk.ReasonTooLarge
}

const (
	maxName = 16 << 10 // of a path in an archive: four times what a kernel takes at once
	bufSize = 128 << 10
)

// below gives the names in a path of a volume.
func below(p string) ([]string, error) {
	if path.IsAbs(p) {
		return nil, invalidPath("path %q is absolute; paths in a volume are relative to its root", short(p))
	}
	names, ok := inside(p)
	if !ok {
		return nil, invalidPath("path %q leaves the volume", short(p))
	}
	if strings.IndexByte(p, 0) >= 0 || len(p) > maxName {
		return nil, invalidPath("path %q is too long or contains a NUL byte", short(p))
	}
	return names, nil
}

// inside splits a path and says whether it stays below its start, with ".." taken by the letter.
func inside(p string) ([]string, bool) {
	p = path.Clean(strings.TrimLeft(p, "/"))
	switch {
	case p == ".":
		return nil, true
	case p == "..", strings.HasPrefix(p, "../"):
		return nil, false
	}
	return strings.Split(p, "/"), true
}

// invalidPath is Invalid with sdk.ReasonPath.
func invalidPath(format string, args ...any) error {
	return sdk.NewInvalid(sdk.ReasonPath, format, args...)
}

// short keeps a hostile name from filling a log.
func short(name string) string {
	const most = 255
	if len(name) > most {
		return name[:most] + "..."
	}
	return name
}
