package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// The columns of the table of RULES.md that says what the host does with an error.
const (
	onCreate  = "CreateContainer"
	onStart   = "StartProcess"
	onFollow  = "FollowProcess"
	onDestroy = "DestroyContainer, DestroyVolume"
)

// TestHostDoesWhatTheRulesSay: a worker answers each class to each call of the table, and the host does what the page says there.
func TestHostDoesWhatTheRulesSay(t *testing.T) {
	t.Parallel()
	page := handlingTable(t)
	class := func(classes ...sdk.Class) (errs []error) {
		for _, c := range classes {
			errs = append(errs, &sdk.Error{Class: c, Message: "as the test has it"})
		}
		return errs
	}
	because := func(r sdk.Reason) error {
		return &sdk.Error{Class: sdk.FailedPrecondition, Reason: r, Position: 2, Message: "as the test has it"}
	}
	of := func(k sdk.Kind) error { return sdk.NewNotFound(k, "it") }
	const (
		ofVolume = "of a volume: makes it anew; else fails"
		ofState  = "abandoned or record-lost: lost; output-gap: goes on behind the gap; else follows again"
		ofKind   = "of the container: lost after the grace; of the process: lost; else follows again"
		asks     = "asks ListProcesses; fails if it is not there"
	)
	rows := []struct {
		call string
		says string  // the page, of the class of each answer
		of   []error // the worker's answers
		does string  // what is seen of the host
	}{
		{onCreate, "fails", class(sdk.AlreadyExists, sdk.Invalid, sdk.FailedPrecondition, sdk.Internal), "fails"},
		{onCreate, ofVolume, []error{of(sdk.KindVolume)}, "makes it anew"},
		{onCreate, ofVolume, []error{of(sdk.KindContainer)}, "fails"},
		{onCreate, "places it on another worker", class(sdk.Unsupported), "makes it anew on another worker"},
		{onCreate, "waits for room, there or on another worker", class(sdk.Exhausted), "makes it anew on another worker"},
		{onCreate, "repeats the call", class(sdk.Unavailable), "repeats the call"},

		{onStart, "fails; nothing was started", class(sdk.AlreadyExists, sdk.Invalid, sdk.Unsupported, sdk.FailedPrecondition, sdk.Exhausted), "fails"},
		{onStart, asks, append(class(sdk.Internal), of(sdk.KindProcess)), "asks, fails"},
		{onStart, "asks ListProcesses; repeats the call if it is not there", class(sdk.Unavailable), "asks, repeats the call"},

		{onFollow, "follows again", class(sdk.AlreadyExists, sdk.Invalid, sdk.Unsupported, sdk.Exhausted, sdk.Unavailable, sdk.Internal), "exit 0: ran"},
		{onFollow, ofState, []error{because(sdk.ReasonAbandoned), because(sdk.ReasonRecordLost)}, "lost"},
		{onFollow, ofState, []error{because(sdk.ReasonOutputGap)}, "exit 0: <gap>n"},
		{onFollow, ofState, []error{because(sdk.ReasonSuperseded), because(sdk.ReasonDead), because("")}, "exit 0: ran"},
		{onFollow, ofKind, []error{of(sdk.KindContainer), of(sdk.KindProcess)}, "lost"},
		{onFollow, ofKind, []error{of(sdk.KindFile)}, "exit 0: ran"},

		{onDestroy, "tries again until it succeeds", append(class(sdk.AlreadyExists, sdk.Invalid, sdk.Unsupported, sdk.FailedPrecondition, sdk.Exhausted,
			sdk.Unavailable, sdk.Internal), of(sdk.KindContainer)), "tries again"},
	}
	h := newHandlingHost(t)
	tried := make(map[string]bool)
	for n, row := range rows {
		for i, err := range row.of {
			c := sdk.ClassOf(err)
			cell := string(c) + ", " + row.call
			tried[cell] = true
			if says := page[cell]; says != row.says {
				t.Errorf("%s: the page says %q, and this test knows of %q", cell, says, row.says)
			}
			if got := h.see(t, row.call, fmt.Sprintf("owner-%d-%d", n, i), err); !strings.HasPrefix(got, row.does) {
				t.Errorf("%s with %v: the host %s; want: %s", cell, err, got, row.does)
			}
		}
	}
	for cell := range page {
		if !tried[cell] {
			t.Errorf("%s was not tried", cell)
		}
	}
}

// handlingTable reads the table off the page: what it says by class and call.
func handlingTable(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../sdk/RULES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## What the host does with an error\n")
	classes := make(map[string]sdk.Class) // by their names in Go
	for _, c := range []sdk.Class{sdk.NotFound, sdk.AlreadyExists, sdk.Invalid, sdk.Unsupported, sdk.FailedPrecondition, sdk.Exhausted, sdk.Unavailable, sdk.Internal} {
		classes[strings.ReplaceAll(string(c), " ", "")] = c
	}
	says := make(map[string]string)
	var head []string
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if head == nil {
			head = cells
			continue
		}
		c, ok := classes[strings.ToLower(cells[0])]
		if !ok || len(cells) != len(head) {
			t.Fatalf("a row of the page: %s", line)
		}
		for i, cell := range cells[1:] {
			says[string(c)+", "+head[i+1]] = cell
		}
	}
	if len(says) != 4*len(classes) {
		t.Fatalf("the page's table has %d cells", len(says))
	}
	return says
}

// handlingHost is a host on two workers, of which the next call of one kind is answered as a test has it.
type handlingHost struct {
	*Host
	o  *hooked
	rt sdk.Runtime

	mu     sync.Mutex
	call   string
	answer error // nil: the worker's own
	hidden bool  // lists of containers are empty
}

func newHandlingHost(t *testing.T) *handlingHost {
	h := &handlingHost{rt: newMemory(t, "m", "n")}
	h.o = &hooked{Runtime: h.rt, hook: func(_ context.Context, call, _ string, _ int, real func() error) error {
		h.mu.Lock()
		err, hidden := h.answer, h.hidden
		if call == h.call && err != nil {
			h.answer = nil
			h.mu.Unlock()
			return err
		}
		h.mu.Unlock()
		if call == "list" && hidden {
			return nil
		}
		return real()
	}}
	cfg := testConfig("m", "n")
	cfg.Timing.MissingGrace = time.Millisecond
	h.Host = openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": h.o}})
	return h
}

// next has the next such call answered with an error.
func (h *handlingHost) next(call string, err error, hidden bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.call, h.answer, h.hidden = call, err, hidden
}

// see tells in a word what the host does where a call for that owner is answered so.
func (h *handlingHost) see(t *testing.T, call, owner string, err error) string {
	t.Helper()
	defer h.next("", nil, false)
	switch call {
	case onCreate:
		return h.seeCreate(t, owner, err)
	case onStart:
		return h.seeStart(t, owner, err)
	case onFollow:
		return h.seeFollow(t, owner, err)
	}
	return h.seeDestroy(t, owner, err)
}

func (h *handlingHost) seeCreate(t *testing.T, owner string, answer error) string {
	t.Helper()
	before := h.o.calls("create")
	h.next("create", answer, false)
	_, err := h.Container(t.Context(), owner, ContainerRequest{})
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	asked := h.o.asked[before:]
	switch {
	case err != nil && errors.Is(err, sdk.ClassOf(answer)) && len(asked) == 1:
		return "fails"
	case err != nil || len(asked) != 2:
		return fmt.Sprintf("asks %d times: %v", len(asked), err)
	case asked[0].id == asked[1].id:
		return "repeats the call"
	case asked[0].worker != asked[1].worker:
		return "makes it anew on another worker"
	}
	return "makes it anew"
}

func (h *handlingHost) seeStart(t *testing.T, owner string, answer error) string {
	t.Helper()
	starts, lists := h.o.calls("start"), h.o.calls("list-processes")
	h.next("start", answer, false)
	p, err := tryScript(t, h.Host, owner, "echo ran")
	asks := ""
	if h.o.calls("list-processes") > lists {
		asks = "asks, "
	}
	starts = h.o.calls("start") - starts
	switch {
	case err != nil && errors.Is(err, sdk.ClassOf(answer)) && starts == 1:
		return asks + "fails"
	case err == nil && starts == 2 && say(waitOutcome(t, p)) == "exit 0":
		return asks + "repeats the call"
	}
	return fmt.Sprintf("%s starts %d times: %v", asks, starts, err)
}

func (h *handlingHost) seeFollow(t *testing.T, owner string, answer error) string {
	t.Helper()
	h.next("follow", answer, sdk.IsNotFound(answer, sdk.KindContainer))
	p := script(t, h.Host, owner, "echo ran")
	outcome := say(waitOutcome(t, p))
	if strings.HasPrefix(outcome, "lost: ") {
		return "lost"
	}
	return outcome + ": " + strings.TrimSpace(output(t, p))
}

func (h *handlingHost) seeDestroy(t *testing.T, owner string, answer error) string {
	t.Helper()
	paid := func() {
		testkit.Until(t, "what is owed is paid", func() bool { return len(h.AwaitOwed(t.Context())) == 0 })
	}
	c, err := h.Container(t.Context(), owner, ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	paid() // what other calls have left
	before := h.o.calls("destroy")
	h.next("destroy", answer, false)
	_ = c.Destroy(t.Context()) // it may tell of the first try, or wait for the next
	paid()
	if n := h.o.calls("destroy") - before; n != 2 {
		return fmt.Sprintf("destroys %d times", n)
	}
	return "tries again"
}
