package shim

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/slipway-run/slipway/sdk"
)

// TestRemainsUnreadable: of a record that is damaged nobody can tell anything, least of all that a process never ran.
func TestRemainsUnreadable(t *testing.T) {
	r := Remains(fstest.MapFS{"p/p/start": {Data: []byte("{")}})
	_, listed := r.ListProcesses()
	for what, err := range map[string]error{
		"listing":    listed,
		"following":  r.FollowProcess(t.Context(), "p", 0, sdk.Follow{}),
		"signalling": r.SignalProcess("p"),
	} {
		if !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, sdk.ReasonRecordLost) {
			t.Errorf("%s: %v, want %s", what, err, sdk.ReasonRecordLost)
		}
	}
}
