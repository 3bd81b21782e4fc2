//go:build linux

package gardentest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

// echo serves lines back, on a listener of the test's own.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // an error is a cut, which is what this is for
			})
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	return "tcp://" + l.Addr().String()
}

func TestProxy(t *testing.T) {
	p := NewProxy(t, echo(t))
	connect := func() (*net.TCPConn, *bufio.Reader) {
		c, err := net.Dial("tcp", p.port.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(testkit.Bound(t))); err != nil {
			t.Fatal(err)
		}
		return c.(*net.TCPConn), bufio.NewReader(c)
	}
	say := func(c net.Conn, r *bufio.Reader, text string) {
		t.Helper()
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if got, err := r.ReadString('\n'); err != nil || got != text {
			t.Fatalf("got %q, %v; want %q", got, err, text)
		}
	}
	one, fromOne := connect()
	say(one, fromOne, "hello\n")
	if got := p.Connections(); got != 1 {
		t.Errorf("%d connections", got)
	}

	p.Freeze()
	if _, err := io.WriteString(one, "held\n"); err != nil {
		t.Fatal(err)
	}
	if err := one.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if got, err := fromOne.ReadString('\n'); err == nil {
		t.Errorf("%q passes a frozen proxy", got)
	}
	two, fromTwo := connect()
	p.Thaw()
	if err := one.SetReadDeadline(time.Now().Add(testkit.Bound(t))); err != nil {
		t.Fatal(err)
	}
	if got, err := fromOne.ReadString('\n'); err != nil || got != "held\n" {
		t.Errorf("after the thaw: %q, %v", got, err)
	}
	say(two, fromTwo, "second\n")

	if err := two.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(fromTwo); err != nil || len(got) > 0 {
		t.Errorf("after half a close: %q, %v", got, err)
	}

	p.Freeze()
	p.Refuse()
	if _, err := net.Dial("tcp", p.port.address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused: %v", err)
	}
	p.Cut()
	if _, err := fromOne.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("cut: %v", err)
	}
	p.Thaw()
	p.Accept(t)
	three, fromThree := connect()
	say(three, fromThree, "again\n")
}
