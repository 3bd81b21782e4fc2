package api

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/internal/testkit"
)

// TestDestroyAgain: the answer of a DestroyContainer is lost, another client asks for the owner's container, and the first repeats its call. With the id it does not end the container of
// the other.
func TestDestroyAgain(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ensure := func() *pb.EnsureContainerResponse {
		r, err := s.containers.EnsureContainer(testkit.Context(t), connect.NewRequest(&pb.EnsureContainerRequest{Owner: "me"}))
		must(t, err)
		return r.Msg
	}
	first := ensure()
	again := &pb.DestroyContainerRequest{Owner: "me", Id: first.GetId()}
	through := &deaf{real: s.http().Transport}
	through.deaf.Store(true)
	client := pb.NewContainerServiceClient(&http.Client{Transport: through}, base)
	_, err := client.DestroyContainer(testkit.Context(t), connect.NewRequest(again))
	if !errors.Is(err, errLost) {
		t.Fatalf("the call whose answer is lost ends with %v", err)
	}
	second := ensure()
	if second.GetId() == first.GetId() || first.GetId() == "" {
		t.Fatalf("after container %q there is %q", first.GetId(), second.GetId())
	}
	through.deaf.Store(false)
	if _, err := client.DestroyContainer(testkit.Context(t), connect.NewRequest(again)); err != nil {
		t.Errorf("once more: %v", err)
	}
	if c, err := s.server.h.FindContainer(testkit.Context(t), "me"); err != nil || c.State() != "ready" || c.ID() != second.GetId() {
		t.Errorf("the other's container is now %v, %v", c, err)
	}
}

var errLost = errors.New("the connection broke")

// deaf is a transport that loses the answers.
type deaf struct {
	real http.RoundTripper
	deaf atomic.Bool
}

func (d *deaf) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := d.real.RoundTrip(r)
	if err == nil && d.deaf.Load() {
		return nil, errors.Join(errLost, a.Body.Close())
	}
	return a, err
}
