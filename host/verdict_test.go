package host

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// TestFollowVerdict: only a record, a row or a long silence ends a process without its exit.
func TestFollowVerdict(t *testing.T) {
	precondition := func(r sdk.Reason) error {
		return sdk.NewFailedPrecondition(r, sdk.KindProcess, "p", "not now")
	}
	for name, c := range map[string]struct {
		err         error
		soon, later verdict // later: there has been no sign of the process for long
	}{
		"away":                {sdk.NewUnavailable(nil, "away"), verdictAway, verdictLost},
		"superseded":          {precondition(sdk.ReasonSuperseded), verdictAway, verdictLost},
		"defect":              {sdk.NewInternal(nil, "oops"), verdictPause, verdictLost},
		"no class":            {errors.New("oops"), verdictPause, verdictLost},
		"exhausted":           {sdk.NewExhausted(sdk.ReasonMemory, "full"), verdictPause, verdictLost},
		"gone for long":       {fmt.Errorf("x: %w", &WorkerGoneError{Worker: "w", Away: time.Minute}), verdictLost, verdictLost},
		"container not found": {sdk.NewNotFound(sdk.KindContainer, "c"), verdictMissing, verdictMissing},
		"process not found":   {sdk.NewNotFound(sdk.KindProcess, "p"), verdictLost, verdictLost},
		"worker not found":    {sdk.NewNotFound(sdk.KindWorker, "w"), verdictPause, verdictLost},
		"abandoned":           {precondition(sdk.ReasonAbandoned), verdictLost, verdictLost},
		"record lost":         {precondition(sdk.ReasonRecordLost), verdictLost, verdictLost},
		"gap":                 {precondition(sdk.ReasonOutputGap), verdictGap, verdictGap},
		"full disk here":      {localError{errors.New("no space")}, verdictPause, verdictPause},
		"stdin failed":        {stdinError{errors.New("cut")}, verdictNoStdin, verdictNoStdin},
		"new stdin":           {errFollowAgain, verdictAgain, verdictAgain},
		"spool ended":         {errEndedWithoutExit, verdictEnded, verdictEnded},
	} {
		if got, _ := followVerdict(c.err, false); got != c.soon {
			t.Errorf("%s: verdict %d, want %d", name, got, c.soon)
		}
		got, reason := followVerdict(c.err, true)
		if got != c.later || got == verdictLost && reason == "" {
			t.Errorf("%s, after long: verdict %d for %q, want %d", name, got, reason, c.later)
		}
	}
}
