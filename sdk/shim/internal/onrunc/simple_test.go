//go:build linux

package onrunc

import (
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

func TestBothModes(t *testing.T) {
	for name, m := range map[string]setting{"process 1": {}, "first exec": {initMode: true}} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, m)
			b.says(sh("echo hello; id -u"), "hello\n0\n")
			if r := b.run(sh("exit 7")); r.exit.Code != 7 || r.exit.Reason != sdk.ExitExited {
				t.Errorf("%+v", r.exit)
			}
			if b.count != 1 {
				t.Errorf("%d execs", b.count)
			}
		})
	}
}
