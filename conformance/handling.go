package conformance

import "github.com/slipway-run/slipway/sdk"

// handling is a row: what the host does with an error of that class, by the call that ended with it. A test of package host holds the host to these words.
type handling struct {
	class                          sdk.Class
	create, start, follow, destroy string
}

// hostHandling is the table of what the host does with errors.
func hostHandling() []handling {
	const (
		fails   = "fails"
		refused = "fails; nothing was started"
		later   = "follows again"
		again   = "tries again until it succeeds"
	)
	return []handling{
		{sdk.NotFound, "of a volume: makes it anew; else fails", "asks ListProcesses; fails if it is not there", "of the container: lost after the grace; of the process: lost; else follows again", again},
		{sdk.AlreadyExists, fails, refused, later, again},
		{sdk.Invalid, fails, refused, later, again},
		{sdk.Unsupported, "places it on another worker", refused, later, again},
		{sdk.FailedPrecondition, fails, refused, "abandoned or record-lost: lost; output-gap: goes on behind the gap; else follows again", again},
		{sdk.Exhausted, "waits for room, there or on another worker", refused, later, again},
		{sdk.Unavailable, "repeats the call", "asks ListProcesses; repeats the call if it is not there", later, again},
		{sdk.Internal, fails, "asks ListProcesses; fails if it is not there", later, again},
	}
}
