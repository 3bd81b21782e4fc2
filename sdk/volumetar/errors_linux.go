package volumetar

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// errChanged says that another process had its hands in the tree.
var errChanged = errors.New("it changed meanwhile; let nothing write to the volume")

// readError makes an error of the contract from why a path could not be read.
func readError(name string, err error) error {
	if _, ok := errors.AsType[*sdk.Error](err); ok || err == nil {
		return err
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR): // the latter: below a file
		return sdk.NewNotFound(sdk.KindFile, name)
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.EINVAL):
		return invalidPath("path %q: %v", short(name), err)
	case errors.Is(err, errChanged):
		return &sdk.Error{Class: sdk.FailedPrecondition, Reason: sdk.ReasonInUse, Kind: sdk.KindFile, ID: name,
			Message: fmt.Sprintf("path %q: %v", short(name), err)}
	}
	return sdk.NewInternal(err, "path %q: %v", short(name), err)
}

// writeError makes an error of the contract from why something could not be written. About an entry, reason is sdk.ReasonArchive; about
// the path below which to unpack it is sdk.ReasonPath.
func writeError(what string, reason sdk.Reason, err error) error {
	if _, ok := errors.AsType[*sdk.Error](err); ok || err == nil {
		return err
	}
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return &sdk.Error{Class: sdk.Exhausted, Reason: sdk.ReasonStorage, Cause: err,
			Message: fmt.Sprintf("%s: %v; make room where the volumes are", what, err)}
	case errors.Is(err, errChanged):
		return &sdk.Error{Class: sdk.FailedPrecondition, Reason: sdk.ReasonInUse, Message: fmt.Sprintf("%s: %v", what, err)}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, unix.EFBIG):
		return sdk.NewInvalid(sdk.ReasonTooLarge, "%s: %v", what, err)
	case errors.Is(err, unix.ELOOP):
		return sdk.NewInvalid(reason, "%s: leads through a symbolic link", what)
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.EILSEQ):
		return sdk.NewInvalid(reason, "%s: %v", what, err)
	}
	return sdk.NewInternal(err, "%s: %v", what, err)
}

// badArchive is Invalid with sdk.ReasonArchive.
func badArchive(format string, args ...any) error {
	return sdk.NewInvalid(sdk.ReasonArchive, format, args...)
}
