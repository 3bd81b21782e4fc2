package storenet

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// TestFrames carries bytes of any cut.
func TestFrames(t *testing.T) {
	sent := make([]byte, 3*maxFrame+5)
	rand.Read(sent)
	var wire bytes.Buffer
	out := &framesOut{w: &wire}
	for rest, n := sent, 1; len(rest) > 0; n *= 7 {
		part := rest[:min(n, len(rest))]
		if got, err := out.Write(part); got != len(part) || err != nil {
			t.Fatal(got, err)
		}
		if err := out.frame(nil); err != nil {
			t.Fatal(err)
		}
		rest = rest[len(part):]
	}
	whole := wire.Bytes()
	got, err := io.ReadAll(&framesIn{r: iotest.OneByteReader(bytes.NewReader(whole)), gone: func() {}})
	if !bytes.Equal(got, sent) || err != nil {
		t.Errorf("%d of %d bytes came, %v", len(got), len(sent), err)
	}
	for _, less := range []int{1, 6} { // within a head, within bytes
		if _, err := io.ReadAll(&framesIn{r: bytes.NewReader(whole[:len(whole)-less]), gone: func() {}}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut by %d bytes: %v", less, err)
		}
	}
	if err := out.end(); err != nil {
		t.Fatal(err)
	}
	more := io.MultiReader(&wire, failing{})
	in := &framesIn{r: more, gone: func() {}}
	for _, want := range [][]byte{sent, {}} {
		if got, err := io.ReadAll(in); !bytes.Equal(got, want) || err != nil {
			t.Errorf("up to the last frame %d bytes came, %v", len(got), err)
		}
	}
	if _, err := io.ReadAll(&framesIn{r: bytes.NewReader([]byte{0, 1, 0, 1, 0}), gone: func() {}}); err == nil {
		t.Error("a frame that is too long is taken")
	}
}

// failing is what nobody may read.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("read on") }

// TestTunnel carries bytes as long as there are signs of life, and ends without: a plugin that was killed must not hold volumes for ever.
func TestTunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fromPlugin, toTunnel := io.Pipe()
		fromTunnel, toPlugin := io.Pipe()
		ours, stores := net.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- Tunnel(t.Context(), ours, fromPlugin, toPlugin) }()
		var own sync.WaitGroup
		own.Go(func() { _, _ = io.Copy(stores, stores) }) // the store says what it hears

		life, die := context.WithCancel(t.Context())
		out, in := &framesOut{w: toTunnel}, &framesIn{r: fromTunnel, gone: func() { t.Error("the tunnel fell silent") }}
		own.Go(func() {
			if err := out.beat(life); err != nil {
				t.Error(err)
			}
		})
		for range 3 {
			time.Sleep(10 * time.Minute)
			own.Go(func() { _, _ = out.Write([]byte("hello")) })
			said := make([]byte, 5)
			if _, err := io.ReadFull(in, said); string(said) != "hello" || err != nil {
				t.Errorf("the store's answer is %q, %v", said, err)
			}
		}
		own.Go(func() { _, _ = io.Copy(io.Discard, fromTunnel) })
		die()
		died := time.Now()
		if err := <-ended; err == nil || time.Since(died) > silence+beatTime {
			t.Errorf("the tunnel of one who died ended after %v with %v", time.Since(died), err)
		}
		if _, err := stores.Write([]byte("x")); err == nil {
			t.Error("the store's connection is still there")
		}
		toTunnel.Close()
		toPlugin.Close()
		own.Wait()
	})
}
