package conformance

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestHeldLinesFitTheSmallestPipe has S22's leader write to a pipe as small as the kernel makes any, of which no more is read than the journal takes. It must
// end all the same, or the case waits for it until its time is over.
func TestHeldLinesFitTheSmallestPipe(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer in.Close()
	if _, err := unix.FcntlInt(in.Fd(), unix.F_SETPIPE_SZ, 2*os.Getpagesize()); err != nil {
		t.Fatal(err)
	}
	leader := exec.CommandContext(testkit.Context(t), probeHere(t), "lines", strconv.Itoa(heldLines))
	leader.Stdout = in
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if _, err := io.ReadFull(out, make([]byte, spill)); err != nil {
		t.Error(err)
	}
	if err := leader.Wait(); err != nil {
		t.Errorf("the leader could not write all of it: %v", err)
	}
	if rest, err := io.ReadAll(out); err != nil || len(rest) == 0 {
		t.Errorf("%d bytes are left beyond what the journal takes (%v), so nothing holds the exit", len(rest), err)
	}
}
