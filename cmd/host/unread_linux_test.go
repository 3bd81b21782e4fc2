package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestInterruptTwiceUnread ends by the second interrupt where nobody reads what it writes, as it ends elsewhere: all is told on stderr, and nothing is left.
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
	r.signal(os.Interrupt)
	r.wait().wants(codeInterrupted).says("only - aborted", "1 step aborted")
}

// TestInterruptTwiceUnreadEnd does not end as if all had gone well where the command has ended well, and the rest of what it wrote is given up.
func TestInterruptTwiceUnreadEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	unread, out, err := os.Pipe()
	p.must(err)
	defer unread.Close()
	c := p.command("exec", "--state", "state", "--", "sh", "-c", "yes | head -c 1000000")
	c.Stdout = out
	r := p.begin(c)
	out.Close()
	testkit.Until(t, "the command has ended", func() bool {
		return strings.Contains(p.run("runs", "--state", "state").out, "  ended  ")
	})
	r.signal(os.Interrupt)
	r.await("interrupt again to kill it")
	r.signal(os.Interrupt)
	r.wait().wants(codeInterrupted).says("cannot write to stdout: nobody reads it")
}

// TestOutletUnread: once somebody hurries, what a reader takes still reaches it whole, and what nobody takes is given up for good.
func TestOutletUnread(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, end := context.WithCancelCause(t.Context())
	o := newOutlet(w, "stdout", end)
	hurry := make(chan struct{})
	o.hurry = hurry
	close(hurry)

	text := bytes.Repeat([]byte("read "), 10<<10) // less than a pipe takes
	read := make(chan []byte, 1)
	go func() {
		b := make([]byte, len(text))
		_, _ = io.ReadFull(r, b)
		read <- b
	}()
	if n, err := o.Write(text); n != len(text) || err != nil {
		t.Fatalf("wrote %d of %d with a reader, and %v", n, len(text), err)
	}
	if got := <-read; !bytes.Equal(got, text) {
		t.Error("another text came")
	}

	stuck := make([]byte, 1<<20) // more than it takes
	for range 2 {
		if _, err := o.Write(stuck); !errors.Is(err, errUnread) || !errors.Is(context.Cause(ctx), errUnread) {
			t.Errorf("a write that nobody reads is %v and has ended the command with %v", err, context.Cause(ctx))
		}
	}
	r.Close() // ends what is left behind
}
