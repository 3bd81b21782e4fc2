package host

import (
	"context"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// liar is a runtime whose workers tell other exits than there were.
type liar struct {
	sdk.Runtime
	tell []sdk.Exit
}

func (l *liar) Worker(name string) (sdk.Worker, error) {
	w, err := l.Runtime.Worker(name)
	return &lyingWorker{w, l.tell}, err
}

type lyingWorker struct {
	sdk.Worker
	tell []sdk.Exit
}

func (w *lyingWorker) FollowProcess(ctx context.Context, c sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
	exit := f.Exit
	f.Exit = func(sdk.Exit) error {
		for _, e := range w.tell {
			if err := exit(e); err != nil {
				return err
			}
		}
		return nil
	}
	return w.Worker.FollowProcess(ctx, c, p, from, f)
}

// TestUntrueExits: an exit that no process can have had is never a success, nor any exit; of several the first holds.
func TestUntrueExits(t *testing.T) {
	ok, failed := sdk.Exit{Reason: sdk.ExitExited}, sdk.Exit{Code: 3, Reason: sdk.ExitExited}
	for name, c := range map[string]struct {
		tell []sdk.Exit
		want string
	}{
		"too large":               {[]sdk.Exit{{Code: 256, Reason: sdk.ExitExited}}, "lost: the plugin told"},
		"negative":                {[]sdk.Exit{{Code: -256, Reason: sdk.ExitExited}}, "lost: the plugin told"},
		"zero with a signal":      {[]sdk.Exit{{Signal: sdk.KILL, Reason: sdk.ExitSignalled}}, "lost: the plugin told"},
		"exited with a signal":    {[]sdk.Exit{{Signal: sdk.KILL, Reason: sdk.ExitExited}}, "lost: the plugin told"},
		"signalled by none":       {[]sdk.Exit{{Code: 137, Reason: sdk.ExitSignalled}}, "lost: the plugin told"},
		"zero out of memory":      {[]sdk.Exit{{Reason: sdk.ExitOOM}}, "lost: the plugin told"},
		"for no reason":           {[]sdk.Exit{{}}, "lost: the plugin told"},
		"a success, then none":    {[]sdk.Exit{ok, failed}, "exit 0"},
		"a failure, then none":    {[]sdk.Exit{failed, ok}, "exit 3"},
		"a failure, then nothing": {[]sdk.Exit{failed, {Code: 256}}, "exit 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := openHost(t, &liar{newMemory(t, "m"), c.tell}, Options{}, "m")
			p := script(t, h, "owner", "exit 1")
			got := say(waitOutcome(t, p))
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("outcome %q, want %q", got, c.want)
			}
			checkRow(t, h, c.want)
			later, err := h.FindProcess(t.Context(), "owner", string(MainProcess)) // who asks later hears the same
			if err != nil {
				t.Fatal(err)
			}
			if again := say(waitOutcome(t, later)); again != got {
				t.Errorf("later the outcome is %q, and was %q", again, got)
			}
		})
	}
}
