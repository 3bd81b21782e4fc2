package host

import (
	"regexp"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/slipway-run/slipway/sdk"
)

// newID makes an id that is used once, for ever: a letter for the kind of thing and a ULID in lower case.
func newID(prefix string) string { return prefix + strings.ToLower(ulid.Make().String()) }

var ownerPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:@#-]{0,199}$`)

var runPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@#-]{0,127}$`)

// CheckRunID is Invalid unless id can stand in the owners of what a run has, such as [RunOwner]'s: it ends there where the first "/" is.
func CheckRunID(id string) error {
	if runPattern.MatchString(id) {
		return nil
	}
	return sdk.NewInvalid(sdk.ReasonSpec, "run id %.60q must be 1 to 128 of letters, digits and \"._:@#-\", without \"/\", and begin with a letter or digit: give another", id)
}

// checkOwner is Invalid unless owner can stand in rows, labels and messages.
func checkOwner(owner string) error {
	if ownerPattern.MatchString(owner) {
		return nil
	}
	return sdk.NewInvalid(sdk.ReasonSpec, "owner %.60q must be 1 to 200 of letters, digits and \"._/:@#-\", and begin with a letter or digit", owner)
}
