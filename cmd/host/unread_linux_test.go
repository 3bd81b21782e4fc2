package main

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestInterruptTwiceUnread ends by the second interrupt where nobody reads what it writes, and leaves nothing. TestMain's build gives up later than that which users have.
func TestInterruptTwiceUnread(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"j.hcl": oneStep("yes; true")})
	unread, out, err := os.Pipe()
	p.must(err)
	defer unread.Close()
	c := p.command("run", "j.hcl", "--grace", "100ms")
	c.Stdout = out
	r := p.begin(c)
	out.Close()
	r.await("only")
	testkit.Until(t, "nothing more goes into its stdout", func() bool {
		n, err := unix.IoctlGetInt(int(unread.Fd()), unix.TIOCINQ)
		return err == nil && n >= 60<<10
	})
	r.signal(os.Interrupt)
	r.await("interrupt again to kill it")
	began := time.Now()
	r.signal(os.Interrupt)
	r.wait().wants(codeInterrupted)
	t.Logf("ended %v after the second interrupt", time.Since(began))
}
