package host

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// fromAny tries one source of an artifact after another, in their order, until one has worked. It goes on where a source is away, has lost the
// content, is damaged or has a defect, and notes a replica of which that is so. Try tells of its error whether it may be the source's: one of
// a destination, or after which nobody can begin anew, is given as it is. When no source is left the error is a *sourcesError.
func (h *Host) fromAny(ctx context.Context, sources []source, try func(source) (ofSource bool, err error)) error {
	failed := &sourcesError{}
	for _, src := range sources {
		ofSource, err := try(src)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !ofSource || !passable(err) {
			return err
		}
		switch {
		case errors.Is(err, sdk.Unavailable): // it is known that the worker is away
		case src.worker != nil:
			h.doubtReplica(ctx, src.worker, src.volume.ID, err)
		default:
			h.log.Warn("content of an artifact could not be read, and is passed over", "source", src.name, "error", err)
		}
		failed.errs = append(failed.errs, err)
	}
	return failed
}

// passable tells whether another source may do better than one that has failed so.
func passable(err error) bool {
	return errors.Is(err, sdk.Unavailable) || sdk.IsNotFound(err, sdk.KindVolume) || sdk.ClassOf(err) == sdk.Internal || errors.Is(err, sdk.ReasonArchive)
}

// blamesSource tells whether a failed stream's source may be the cause. Whichever side sees first that an archive is damaged, the archive is the
// source's; a destination that refuses each of them for what is in it costs some streams in vain.
func blamesSource(err error) bool {
	side, ok := errors.AsType[*stream.SideError](err)
	return ok && (side.Side == stream.Source || errors.Is(side, sdk.ReasonArchive))
}

// sourcesError says of each source of an artifact why it could not be read. Each error names its source.
type sourcesError struct{ errs []error }

func (e *sourcesError) Error() string {
	if len(e.errs) == 1 {
		return e.errs[0].Error()
	}
	var all []string
	for _, err := range e.errs {
		all = append(all, err.Error())
	}
	return "none of the sources could be read: " + strings.Join(all, "; ")
}

// Unwrap gives the errors, those first that may pass by themselves: the first one's class is the whole's.
func (e *sourcesError) Unwrap() []error {
	out := slices.Clone(e.errs)
	slices.SortStableFunc(out, func(x, y error) int {
		switch away := errors.Is(x, sdk.Unavailable); {
		case away == errors.Is(y, sdk.Unavailable):
			return 0
		case away:
			return -1
		}
		return 1
	})
	return out
}

// damaged tells whether all sources are there and no archives: trying again would be in vain.
func (e *sourcesError) damaged() bool {
	return !slices.ContainsFunc(e.errs, func(err error) bool { return !errors.Is(err, sdk.ReasonArchive) })
}
