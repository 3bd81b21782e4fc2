package shim

import (
	"fmt"
	"io"
	"os/exec"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// BenchmarkCall is what a call costs on a session that is open, through the real program.
func BenchmarkCall(b *testing.B) {
	m := newMachine(b)
	m.serve(b)
	d := m.driver(b, Options{})
	if _, err := d.Ready(b.Context(), box); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := d.SignalProcess(b.Context(), box, "none", sdk.HUP); !sdk.IsNotFound(err, sdk.KindProcess) {
			b.Fatal(err)
		}
	}
}

const benchBytes = 64 << 20

var benchScript = []string{"-c", fmt.Sprintf("head -c %d /dev/zero", benchBytes)}

// BenchmarkFollow follows a process that writes as fast as it can, from its start to its exit. Compare BenchmarkPipe.
func BenchmarkFollow(b *testing.B) {
	m := newMachine(b)
	m.serve(b)
	d := m.driver(b, Options{})
	b.SetBytes(benchBytes)
	for i := 0; b.Loop(); i++ {
		id := sdk.ProcessID(fmt.Sprint("p", i))
		if err := d.StartProcess(b.Context(), box, sdk.ProcessSpec{ID: id, Token: "t", Path: "/bin/sh", Args: benchScript}); err != nil {
			b.Fatal(err)
		}
		var got int
		err := d.FollowProcess(b.Context(), box, id, 0, sdk.Follow{Output: func(records []sdk.Record) error {
			for _, r := range records {
				got += len(r.Data)
			}
			return nil
		}})
		if err != nil || got != benchBytes {
			b.Fatal(got, err)
		}
	}
}

// BenchmarkPipe is the same without anything of ours: the command, and a pipe.
func BenchmarkPipe(b *testing.B) {
	b.SetBytes(benchBytes)
	for b.Loop() {
		cmd := exec.Command("/bin/sh", benchScript...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{out}, make([]byte, 64<<10)); err != nil || n != benchBytes {
			b.Fatal(n, err)
		}
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}
