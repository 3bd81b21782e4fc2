package rpc

import (
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

type closing struct {
	sdk.Worker
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

type opening struct {
	sdk.Runtime
	made []*closing
}

func (o *opening) Worker(string) (sdk.Worker, error) {
	o.made = append(o.made, &closing{})
	return o.made[len(o.made)-1], nil
}

func TestHandleIsSharedAndClosedOnce(t *testing.T) {
	h, rt := newHandles(), &opening{}
	acquire := func(name string) func() {
		t.Helper()
		_, release, err := h.acquire(rt, name)
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	one, two := acquire("a"), acquire("a")
	if len(rt.made) != 1 {
		t.Fatalf("%d handles for one worker", len(rt.made))
	}
	one()
	h.observe(sdk.WorkerEvent{Kind: sdk.WorkerUpsert, Workers: []sdk.WorkerInfo{{Name: "b"}}})
	h.observe(sdk.WorkerEvent{Kind: sdk.WorkerSnapshot, Workers: []sdk.WorkerInfo{{Name: "a"}}})
	h.observe(sdk.WorkerEvent{Kind: sdk.WorkerRemove, Workers: []sdk.WorkerInfo{{Name: "a"}}})
	if rt.made[0].closed != 0 {
		t.Error("closed under a call")
	}
	two()
	if rt.made[0].closed != 1 {
		t.Errorf("closed %d times", rt.made[0].closed)
	}
	acquire("a")()
	acquire("b")()
	h.observe(sdk.WorkerEvent{Kind: sdk.WorkerSnapshot, Workers: []sdk.WorkerInfo{{Name: "b"}}})
	if len(rt.made) != 3 || rt.made[1].closed != 1 || rt.made[2].closed != 0 {
		t.Error("a snapshot closes what it lacks, and only that")
	}
	if err := h.close(); err != nil || rt.made[2].closed != 1 {
		t.Errorf("at the end: %v, closed %d times", err, rt.made[2].closed)
	}
}
