package storenet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestSecretsDoNotShow wherever a Hello is printed or logged.
func TestSecretsDoNotShow(t *testing.T) {
	h := Hello{Protocol: Protocol, Secret: NewSecret()}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("hello", "hello", h, "secret", h.Secret, "as", Introduction{Secret: h.Secret})
	slog.New(slog.NewTextHandler(&log, nil)).Info(fmt.Sprintf("%v %+v %#v %s %q", h, h, h, h.Secret, h.Secret))
	if strings.Contains(log.String(), string(h.Secret)) {
		t.Errorf("%q shows in %s", string(h.Secret), log.String())
	}
	if len(h.Secret) < 26 || h.Secret == NewSecret() {
		t.Errorf("%q is no good secret", string(h.Secret))
	}
}

func TestReadHello(t *testing.T) {
	good := `{"protocol":"slipway.store/1","addresses":["a:1"],"local":"l:1","fingerprint":"f","secret":"s","incarnation":"i","later":"x"}`
	h, err := ReadHello([]byte(good))
	if want := (Hello{Protocol: Protocol, Addresses: []string{"a:1"}, Local: "l:1", Fingerprint: "f", Secret: "s", Incarnation: "i"}); err != nil || !reflect.DeepEqual(h, want) {
		t.Errorf("got %+v, %v", h, err)
	}
	for _, bad := range []string{"", "{", `{"protocol":"slipway.store/1"}`, `{"protocol":"slipway.store/2","fingerprint":"f","secret":"s"}`, "[]"} {
		if _, err := ReadHello([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestFault carries errors of the contract over, and gives others a class.
func TestFault(t *testing.T) {
	full := &sdk.Error{Class: sdk.Unavailable, Kind: sdk.KindVolume, ID: "v", Reason: "r", Feature: "f", RetryAfter: 3 * time.Second, Message: "m"}
	if got := NewFault(full).Err(); !reflect.DeepEqual(got, full) {
		t.Errorf("got %+v", got)
	}
	for _, c := range []struct {
		err  error
		want sdk.Class
	}{
		{errors.New("x"), sdk.Internal}, {context.Canceled, sdk.Unavailable},
		{fmt.Errorf("words: %w", sdk.NewNotFound(sdk.KindVolume, "v")), sdk.NotFound},
		{errors.New(strings.Repeat("x", 1<<20)), sdk.Internal},
	} {
		got := NewFault(c.err).Err()
		if sdk.ClassOf(got) != c.want || len(got.Error()) > 2*maxMessage {
			t.Errorf("%.100v became %.100v", c.err, got)
		}
	}
	if got := NewFault(fmt.Errorf("words: %w", full)).Err().Error(); got != "words: m" {
		t.Errorf("the words are %q", got)
	}
}

// endless never has the end of a line, and tells how much of it was read.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.n += len(p)
	return len(p), nil
}

func TestLinesHaveAnEnd(t *testing.T) {
	var v Request
	long := &endless{}
	if err := readByByte(long, 100, &v); err == nil || long.n > 102 {
		t.Errorf("%d bytes were read: %v", long.n, err)
	}
	long = &endless{}
	if err := readLine(bufio.NewReader(long), &v); err == nil || long.n > 2*maxLine {
		t.Errorf("%d bytes were read: %v", long.n, err)
	}
	r := strings.NewReader("{\"seal\":\"v\"}\nrest")
	if err := readByByte(r, 100, &v); err != nil || v.Seal != "v" || r.Len() != len("rest") {
		t.Errorf("got %+v, %v with %d bytes left", v, err, r.Len())
	}
	if err := readByByte(strings.NewReader("{"), 100, &v); err == nil {
		t.Error("half a line is taken")
	}
}

// door is a listener that answers as a store does up to its welcome, and counts those that came so far.
func door(t *testing.T) (address, fingerprint string, came func() int) {
	t.Helper()
	cert, fingerprint, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	n := 0
	s := NewServer(cert)
	var own sync.WaitGroup
	own.Go(func() {
		for {
			raw, err := lis.Accept()
			if err != nil {
				return
			}
			own.Go(func() {
				defer raw.Close()
				c, _, err := s.Meet(t.Context(), raw)
				if err != nil {
					return
				}
				mu.Lock()
				n++
				mu.Unlock()
				_ = Welcome(c)
				_, _ = io.Copy(io.Discard, c)
			})
		}
	})
	t.Cleanup(func() {
		lis.Close()
		own.Wait()
	})
	return lis.Addr().String(), fingerprint, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// TestConnect finds the one address that leads to the store, tells no other who comes, and leaves nothing behind.
func TestConnect(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	other, _, othersGuests := door(t)
	right, fingerprint, guests := door(t)
	as := Introduction{Kind: KindWorker, Secret: "s"}
	c, err := Connect(t.Context(), []string{"127.0.0.1:1", silent.Addr().String(), other, right, "no address", "[::1]:1"}, fingerprint, as)
	if err != nil {
		t.Fatal(err)
	}
	if c.RemoteAddr().String() != right {
		t.Errorf("connected with %v", c.RemoteAddr())
	}
	c.Close()
	if guests() != 1 || othersGuests() != 0 {
		t.Errorf("%d came to the store, %d to another", guests(), othersGuests())
	}

	_, err = Connect(t.Context(), []string{"127.0.0.1:1", other}, fingerprint, as)
	if far, ok := errors.AsType[*Unreachable](err); !ok || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), other) || len(far.Addresses) != 2 {
		t.Errorf("at wrong addresses: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Connect(ctx, []string{silent.Addr().String()}, fingerprint, as); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody answers, and the caller has no more time: %v", err)
	}
}

// TestNobodyThere names the node and says what the command did, in a class that lets the host try again.
func TestNobodyThere(t *testing.T) {
	for name, exec := range map[string]Exec{
		"the task is gone": func(context.Context, []string, io.Reader, io.Writer, io.Writer) error {
			return sdk.NewNotFound(sdk.KindContainer, "the task is gone")
		},
		"not found": func(_ context.Context, _ []string, _ io.Reader, _, stderr io.Writer) error {
			_, err := io.WriteString(stderr, "slipway-store:\n\x1b[31m not found")
			return err
		},
		"said nothing": func(context.Context, []string, io.Reader, io.Writer, io.Writer) error { return nil },
		"cannot be read": func(_ context.Context, _ []string, _ io.Reader, stdout, _ io.Writer) error {
			_, err := io.WriteString(stdout, strings.Repeat("noise", 100))
			return err
		},
		"slipway.store/9": func(_ context.Context, _ []string, _ io.Reader, stdout, _ io.Writer) error {
			_, err := io.WriteString(stdout, `{"protocol":"slipway.store/9"}`)
			return err
		},
	} {
		s, err := New(Options{Node: "n7", Exec: exec, Program: "p", Run: "r"})
		if err != nil {
			t.Fatal(err)
		}
		_, rpcErr := s.Status(t.Context())
		_, err = s.Share(t.Context(), "v")
		for _, err := range []error{rpcErr, err} {
			if !errors.Is(err, sdk.Unavailable) || errors.Is(err, sdk.NotFound) || errors.Is(err, sdk.ReasonPluginGone) || !strings.Contains(err.Error(), "node n7") ||
				!strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestClose ends commands that do not end by themselves, and calls that wait for them.
func TestClose(t *testing.T) {
	entered := make(chan []string, 10)
	s, err := New(Options{Node: "n7", Program: "p", Run: "r", Exec: func(ctx context.Context, argv []string, stdin io.Reader, stdout, _ io.Writer) error {
		if _, ok := stdin.(*os.File); !ok {
			t.Errorf("stdin is a %T", stdin)
		}
		entered <- argv
		<-ctx.Done()
		return ctx.Err()
	}})
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan error, 2)
	go func() {
		_, err := s.Status(context.Background())
		answers <- err
	}()
	go func() {
		_, err := s.Share(context.Background(), "v")
		answers <- err
	}()
	if argv := <-entered; !reflect.DeepEqual(argv, []string{"p", "hello", "--run", "r"}) {
		t.Errorf("the command is %q", argv)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-answers; !errors.Is(err, sdk.Unavailable) {
			t.Errorf("under Close: %v", err)
		}
	}
	if err := s.CreateVolume(t.Context(), sdk.VolumeSpec{ID: "v", Token: "t"}); !errors.Is(err, sdk.Unavailable) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := s.Share(t.Context(), "v"); !errors.Is(err, sdk.Unavailable) {
		t.Errorf("after Close: %v", err)
	}
}
