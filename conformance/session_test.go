package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/status"

	"github.com/slipway-run/slipway/conformance/internal/wire"
	"github.com/slipway-run/slipway/internal/testkit"
)

// exchange is one call of a session in sdk/proto/sessions, with its lines in their order.
type exchange struct {
	method string
	lines  []sessionLine
}

// sessionLine is a message, or how the call ended.
type sessionLine struct {
	kind byte // one of > < = !
	m    wire.Message
}

// sessions are those of the contract of today, and of each release.
func sessions(t *testing.T) map[string][]exchange {
	t.Helper()
	files, err := filepath.Glob("../sdk/proto/sessions/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no session is there: %v", err)
	}
	all := make(map[string][]exchange)
	for _, file := range files {
		var calls []exchange
		for line := range strings.Lines(read(t, file)) {
			line = strings.TrimSpace(line)
			switch {
			case line == "" || line[0] == '#':
			case !strings.ContainsRune("><=!", rune(line[0])):
				calls = append(calls, exchange{method: line})
			default:
				l := sessionLine{kind: line[0]}
				if text := strings.TrimSpace(line[1:]); text != "" {
					if err := json.Unmarshal([]byte(text), &l.m); err != nil {
						t.Fatalf("%s: %q: %v", file, line, err)
					}
				}
				last := &calls[len(calls)-1]
				last.lines = append(last.lines, l)
			}
		}
		all[filepath.Base(file)] = calls
	}
	return all
}

// TestSessionsWithPluginOfToday plays the host's side of each session to the memory plugin, and wants the answers that stand there.
func TestSessionsWithPluginOfToday(t *testing.T) {
	for name, calls := range sessions(t) {
		t.Run(name, func(t *testing.T) {
			proc, err := wire.Start(wire.Program{Path: buildMemory(t)})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := proc.Close(testkit.Context(t)); err != nil {
					t.Error(err)
				}
			}()
			socket, err := proc.Socket(testkit.Context(t))
			if err != nil {
				t.Fatal(err)
			}
			control, err1 := proc.Dial(socket)
			data, err2 := proc.Dial(socket)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			for i, call := range calls {
				conn := control
				if strings.HasPrefix(call.method, "Data/") {
					conn = data
				}
				if err := call.ask(testkit.Context(t), conn); err != nil {
					t.Fatalf("call %d, %s: %v", i+1, call.method, err)
				}
			}
		})
	}
}

// ask plays the host's side of a call, which stays open where the session has no end of it.
func (e exchange) ask(ctx context.Context, conn *wire.Conn) error {
	s, err := conn.Stream(ctx, e.method)
	if err != nil {
		return err
	}
	for _, l := range e.lines {
		if l.kind == '>' {
			if err := s.Send(l.m); err != nil {
				return err
			}
			if e.method != "Data/StreamIn" && e.method != "Data/FollowProcess" { // of which the host's half stays open
				if err := s.CloseSend(); err != nil {
					return err
				}
			}
			continue
		}
		m, err := s.Recv()
		switch l.kind {
		case '<':
			if err != nil {
				return fmt.Errorf("got %s, want %v", tell(err), l.m)
			}
		case '=':
			if err != io.EOF {
				return fmt.Errorf("got %v and %s, want the end of the call", m, tell(err))
			}
			continue
		case '!':
			m = wire.Message{"code": status.Code(err).String(), "error": map[string]any(wire.Detail(err))}
		}
		if why := unlike(l.m, m); why != "" {
			return fmt.Errorf("%s: got %v, want %v", why, m, l.m)
		}
	}
	return nil
}

// unlike tells what of a recorded value is otherwise in a message. A field more is none of that: contracts grow.
func unlike(want, got any) string {
	switch want := want.(type) {
	case string:
		if want == "*" {
			return ""
		}
	case wire.Message:
		return unlike(map[string]any(want), got)
	case map[string]any:
		if m, ok := got.(wire.Message); ok {
			got = map[string]any(m)
		}
		there, ok := got.(map[string]any)
		if !ok {
			return "no message"
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if want[name] == "*" {
				continue // and may be left out
			}
			if why := unlike(want[name], there[name]); why != "" {
				return name + ": " + why
			}
		}
		return ""
	case []any:
		there, _ := got.([]any)
		if len(there) != len(want) {
			return "another number of elements"
		}
		for i := range want {
			if why := unlike(want[i], there[i]); why != "" {
				return fmt.Sprintf("element %d: %s", i, why)
			}
		}
		return ""
	}
	if want != got {
		return fmt.Sprintf("%v instead of %v", got, want)
	}
	return ""
}
