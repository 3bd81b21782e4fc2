package claim

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"

	"github.com/concourse/baggageclaim"
	"github.com/tedsuo/rata"

	"github.com/slipway-run/slipway/sdk"
)

// marker is the volume that makes a store recognisable. No id of a host has a dot.
const marker = "slipway.store"

// Address is the server's, fit to be shown.
func (s *Store) Address() string { return s.url }

// String names the server.
func (s *Store) String() string { return "baggageclaim " + s.url }

// Ping is nil if the server answers as a Baggageclaim server does, else Unavailable with the address and what happened.
func (s *Store) Ping(ctx context.Context) error {
	_, _, err := s.get(ctx, marker)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return sdk.NewUnavailable(err, "%v", err)
}

// Incarnation identifies the content of the server: whoever wipes it takes the marker away, and the next one is another. Whoever asks first
// makes it.
func (s *Store) Incarnation(ctx context.Context) (string, error) {
	unlock, err := s.locks.exclusive(ctx, marker)
	if err != nil {
		return "", err
	}
	defer unlock()
	v, ok, err := s.get(ctx, marker)
	if err != nil {
		return "", err
	}
	if !ok {
		v, err = s.make(ctx, making{
			handle: marker, strategy: baggageclaim.EmptyStrategy{},
			properties: baggageclaim.VolumeProperties{propOwn: ownShared, propStore: strings.ToLower(rand.Text())},
		})
		if _, raced := err.(*notMade); raced { // another one made it at the same moment
			v, ok, err = s.get(ctx, marker)
			if err == nil && !ok {
				err = sdk.NewUnavailable(nil, "baggageclaim %s: the server cannot make the volume %q that it is known by; look for a full disk", s.url, marker)
			}
		}
		if err != nil {
			return "", s.whyNotMade(ctx, making{handle: marker, strategy: baggageclaim.EmptyStrategy{}}, "", err)
		}
	}
	if v.store == "" {
		return "", sdk.NewInternal(nil, "baggageclaim %s: volume %q has no property %q; something else has made it: destroy it", s.url, marker, propStore)
	}
	return v.store, nil
}

// peerURL is where other servers reach this one; empty where it has no such call, as servers before 1.9.
func (s *Store) peerURL(ctx context.Context) (string, error) {
	const what = "asking where peers find it"
	a, err := s.call(ctx, request{what: what, route: baggageclaim.GetP2pUrl, params: rata.Params{}})
	if err != nil {
		return "", err
	}
	switch a.code {
	case http.StatusOK:
		text := strings.TrimSpace(string(a.body))
		if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return "", sdk.NewInternal(err, "baggageclaim %s: %s: it answered %q, which is no address", s.url, what, words(a.body))
		}
		return text, nil
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusInternalServerError: // 500: its interface pattern matches none
		return "", nil
	}
	return "", s.refused(what, a)
}
