package claim

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/concourse/baggageclaim"
	"github.com/tedsuo/rata"

	"github.com/slipway-run/slipway/sdk"
)

// get looks a volume up. It says false where there is none.
func (s *Store) get(ctx context.Context, handle string) (Volume, bool, error) {
	what := "looking for volume " + quote(handle)
	a, err := s.call(ctx, request{what: what, route: baggageclaim.GetVolume, params: rata.Params{"handle": handle}})
	if err != nil {
		return Volume{}, false, err
	}
	switch a.code {
	case http.StatusOK:
	case http.StatusNotFound:
		// Any web server has such an answer; only this one says it in JSON.
		return Volume{}, false, s.decode(what, a, new(map[string]any))
	default:
		return Volume{}, false, s.refused(what, a)
	}
	var r response
	if err := s.decode(what, a, &r); err != nil {
		return Volume{}, false, err
	}
	if r.Handle != handle {
		return Volume{}, false, sdk.NewInternal(nil, "baggageclaim %s: %s: the server told of %s", s.url, what, quote(r.Handle))
	}
	return r.volume(), true, nil
}

// list gives those volumes that have all the properties to each. The server looks at every volume it has. One whose properties are being
// written at that moment may be missing.
func (s *Store) list(ctx context.Context, props map[string]string, each func(Volume) error) error {
	const what = "listing volumes"
	query := url.Values{}
	for k, v := range props {
		query.Set(k, v)
	}
	ctx, dog := s.watch(ctx)
	defer dog.end()
	resp, err := s.connect(ctx, request{what: what, route: baggageclaim.ListVolumes, query: query})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	dog.pause()
	if resp.StatusCode != http.StatusOK {
		return s.refused(what, readAnswer(resp, dog.reader(resp.Body)))
	}
	begun := &beginning{r: resp.Body}
	d := json.NewDecoder(begun)
	garbage := func(err error) error {
		if ctx.Err() != nil || isCut(err) {
			return s.unreachable(ctx, what, err)
		}
		return sdk.NewUnavailable(err, "baggageclaim %s: %s: the answer makes no sense: %v: %q; %s", s.url, what, err, words(begun.text), another)
	}
	// Only whole volumes count as the server doing something: it could send spaces without end.
	step := func(read func() error) error {
		dog.run()
		defer dog.pause()
		return read()
	}
	if err := step(func() error {
		t, err := d.Token()
		if err == nil && t != json.Delim('[') {
			err = errNoList
		}
		return err
	}); err != nil {
		return garbage(err)
	}
	for {
		var r response
		more := false
		if err := step(func() error {
			if more = d.More(); !more {
				_, err := d.Token()
				return err
			}
			return d.Decode(&r)
		}); err != nil {
			return garbage(err)
		}
		if !more {
			return nil
		}
		if err := each(r.volume()); err != nil {
			return err
		}
	}
}

var errNoList = errors.New("it is no list")

// beginning keeps how what is read began, for people.
type beginning struct {
	r    io.Reader
	text []byte
}

func (b *beginning) Read(p []byte) (int, error) {
	const most = 500
	n, err := b.r.Read(p)
	b.text = append(b.text, p[:min(n, most-len(b.text))]...)
	return n, err
}

// set changes one property.
func (s *Store) set(ctx context.Context, handle, name, value string) error {
	what := "marking volume " + quote(handle)
	a, err := s.call(ctx, request{
		what: what, route: baggageclaim.SetProperty, params: rata.Params{"handle": handle, "property": name},
		body: baggageclaim.PropertyRequest{Value: value},
	})
	if err != nil {
		return err
	}
	switch a.code {
	case http.StatusNoContent:
		return nil
	case http.StatusNotFound:
		return sdk.NewNotFound(sdk.KindVolume, handle)
	}
	return s.refused(what, a)
}

// destroy removes a volume, and says false where there was none.
func (s *Store) destroy(ctx context.Context, handle string) (bool, error) {
	what := "destroying volume " + quote(handle)
	a, err := s.call(ctx, request{what: what, route: baggageclaim.DestroyVolume, params: rata.Params{"handle": handle}, slow: true})
	if err != nil {
		return false, err
	}
	switch a.code {
	case http.StatusNoContent:
		return true, nil
	case http.StatusNotFound:
		return false, s.decode(what, a, new(map[string]any))
	case http.StatusInternalServerError:
		// It is out of the server's sight before anything of it is removed. What fails then, as where a server that was started anew has mounted the
		// volume twice, nobody can try again.
		if _, there, err := s.get(ctx, handle); err == nil && !there {
			s.log.Warn("a volume is destroyed, but its server could not tidy up behind it", "volume", handle, "server", s.url, "said", a.words())
			return true, nil
		}
	}
	return false, s.refused(what, a)
}

// forget makes the server give up a creation that goes on, or drop the result of one that has ended, which it keeps for ever else. It
// says false where there is neither.
func (s *Store) forget(ctx context.Context, handle string) (bool, error) {
	what := "giving up the making of volume " + quote(handle)
	a, err := s.call(ctx, request{what: what, route: baggageclaim.CreateVolumeAsyncCancel, params: rata.Params{"handle": handle}})
	if err != nil {
		return false, err
	}
	switch a.code {
	case http.StatusNoContent:
		return true, nil
	case http.StatusNotFound:
		return false, nil
	}
	return false, s.refused(what, a)
}

// making is a volume to be made by the server.
type making struct {
	handle     string
	strategy   baggageclaim.Strategy
	properties baggageclaim.VolumeProperties
	privileged bool
}

// make has the server make a volume, and waits for it. It must not be called for a handle that is there: the server would find that out at
// the end only, and then remove the files of the volume that is there (the overlay driver keeps them by handle).
//
// When ctx ends first, the server goes on. It is not told to stop, for it would destroy the volume some time later, maybe after a second
// call for the same volume has completed it. That second call takes the result, or destroying drops it.
func (s *Store) make(ctx context.Context, m making) (v Volume, err error) {
	s.found.left(m.handle)
	defer func() {
		if ctx.Err() == nil && !errors.Is(err, sdk.Unavailable) {
			s.found.settled(m.handle)
		}
	}()
	what := "making volume " + quote(m.handle)
	for try := 1; ; try++ {
		a, err := s.call(ctx, request{
			what: what, route: baggageclaim.CreateVolumeAsync, once: true,
			body: baggageclaim.VolumeRequest{Handle: m.handle, Strategy: m.strategy.Encode(), Properties: m.properties, Privileged: m.privileged},
		})
		if err != nil {
			return Volume{}, err
		}
		switch a.code {
		case http.StatusCreated:
			return s.await(ctx, what, m)
		case http.StatusInternalServerError:
			// Maybe an earlier call for this handle is still being answered; or nobody took its result, and the volume was destroyed since.
			v, err := s.await(ctx, what, m)
			if err != errNotMaking {
				return v, err
			}
			if try == 1 { // that result is dropped now
				continue
			}
		}
		return Volume{}, s.refused(what, a)
	}
}

// errNotMaking says that the server is not making such a volume.
var errNotMaking = sdk.NewInternal(nil, "the server makes no such volume")

// await polls a creation: at first often, for most take some milliseconds.
func (s *Store) await(ctx context.Context, what string, m making) (Volume, error) {
	for pause := 2 * time.Millisecond; ; pause = min(pause*3/2, 500*time.Millisecond) {
		a, err := s.call(ctx, request{what: what, route: baggageclaim.CreateVolumeAsyncCheck, params: rata.Params{"handle": m.handle}})
		if err != nil {
			return Volume{}, err
		}
		if a.code == http.StatusNoContent {
			if err := wait(ctx, pause); err != nil {
				return Volume{}, err
			}
			continue
		}
		if a.code == http.StatusNotFound {
			return s.awaited(ctx, m)
		}
		if _, err := s.forget(ctx, m.handle); err != nil {
			return Volume{}, err
		}
		switch a.code {
		case http.StatusOK:
			return s.awaited(ctx, m)
		case http.StatusUnprocessableEntity: // of a creation that began, it means that there is no parent
			return Volume{}, errNoParent
		case http.StatusInternalServerError:
			return Volume{}, &notMade{s.refused(what, a)}
		}
		return Volume{}, s.refused(what, a)
	}
}

var errNoParent = sdk.NewInternal(nil, "the parent is not there")

// notMade is the server's answer that a volume could not be made, which never says why.
type notMade struct{ error }

func (e *notMade) Unwrap() error { return e.error }

// awaited looks for a volume of which the server knows no creation any more.
func (s *Store) awaited(ctx context.Context, m making) (Volume, error) {
	v, ok, err := s.get(ctx, m.handle)
	if err == nil && !ok {
		err = errNotMaking
	}
	return v, err
}

// readAnswer reads a short answer that is no success.
func readAnswer(resp *http.Response, body io.Reader) answer {
	const most = 4 << 10
	b, _ := io.ReadAll(io.LimitReader(body, most)) // what came of it is told
	return answer{code: resp.StatusCode, kind: resp.Header.Get("Content-Type"), body: b}
}
