package host

import (
	"path"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// DefaultDir is where a container's relative paths begin if nothing else is asked.
const DefaultDir = "/work"

// resolvePath makes a clean absolute path of what a user wrote. A relative path lies below dir. One that leaves where it began
// with ".." is Invalid and never cleaned into something else; so is an empty one and one with a NUL.
func resolvePath(dir, p string) (string, error) {
	if p == "" {
		return "", sdk.NewInvalid(sdk.ReasonPath, "path is empty")
	}
	if strings.ContainsRune(p, 0) {
		return "", sdk.NewInvalid(sdk.ReasonPath, "path %q contains a NUL byte", p)
	}
	base := dir
	if path.IsAbs(p) {
		base = "/"
	}
	if escapes(strings.TrimLeft(p, "/")) {
		return "", sdk.NewInvalid(sdk.ReasonPath, "path %q leaves %s", p, base)
	}
	if path.IsAbs(p) {
		return path.Clean(p), nil
	}
	return path.Join(dir, p), nil
}

// escapes tells whether a relative path climbs above where it began, at any point on its way.
func escapes(rel string) bool {
	depth := 0
	for part := range strings.SplitSeq(rel, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}
