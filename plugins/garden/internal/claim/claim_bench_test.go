//go:build linux

package claim

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/concourse/baggageclaim"
	"github.com/tedsuo/rata"

	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// BenchmarkRelay moves a volume from one server to another, and compares: through StreamOut and StreamIn, with one plain response piped into one
// plain request; and through PeerSend, with the servers' own call. Goals of the ratios: 1.2 and 1.1.
func BenchmarkRelay(b *testing.B) {
	for _, data := range []struct {
		name   string
		size   int64
		random bool
	}{{"512MiB-random", 512 << 20, true}, {"1GiB-text", 1 << 30, false}} {
		b.Run(data.name, func(b *testing.B) {
			p := newPair(b, data.size, data.random)
			b.Run("relay", func(b *testing.B) { p.compare(b, p.relay, p.plain) })
			b.Run("peer", func(b *testing.B) { p.compare(b, p.peer, p.plainPeer) })
		})
	}
}

// pair is two servers and a sealed volume on the first.
type pair struct {
	ctx      context.Context
	from, to *Store
	source   sdk.VolumeID
	size     int64
}

func newPair(b *testing.B, size int64, random bool) *pair {
	zone := func(c *Config) { c.Zone = "z" }
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	b.Cleanup(cancel)
	p := &pair{ctx: ctx, size: size, source: newID()}
	p.from = storeOf(b, gardentest.Start(b, gardentest.Options{}).Baggageclaim, zone)
	p.to = storeOf(b, gardentest.Start(b, gardentest.Options{}).Baggageclaim, zone)
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeBig(w, size, random)) }()
	must(b, p.from.CreateVolume(ctx, sdk.VolumeSpec{ID: p.source, Token: "t"}))
	must(b, p.from.StreamIn(ctx, p.source, sdk.StreamIn{}, r))
	must(b, p.from.SealVolume(ctx, p.source, nil))
	return p
}

// writeBig writes an archive of files of 16 MiB: noise, or words, some of them rare.
func writeBig(w io.Writer, size int64, random bool) error {
	t := tar.NewWriter(w)
	noise := rand.NewChaCha8([32]byte{7})
	words := newText()
	block := make([]byte, 1<<20)
	for i := int64(0); i < size>>24; i++ {
		if err := t.WriteHeader(&tar.Header{Name: fmt.Sprint("f", i), Mode: 0o644, Size: 1 << 24}); err != nil {
			return err
		}
		for range 16 {
			if random {
				noise.Read(block)
			} else {
				words.fill(block)
			}
			if _, err := t.Write(block); err != nil {
				return err
			}
		}
	}
	return t.Close()
}

// text is text that compresses as sources and logs do, to a quarter or so.
type text struct {
	zipf *rand.Zipf
	list [20_000]string
}

func newText() *text {
	r := rand.New(rand.NewPCG(1, 2))
	w := &text{zipf: rand.NewZipf(r, 1.2, 4, 19_999)}
	for i := range w.list {
		word := make([]byte, 3+r.IntN(9))
		for j := range word {
			word[j] = byte('a' + r.IntN(26))
		}
		w.list[i] = string(word) + " "
	}
	return w
}

func (w *text) fill(block []byte) {
	for len(block) > 0 {
		block = block[copy(block, w.list[w.zipf.Uint64()]):]
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// compare runs both, in turns, each into fresh volumes.
func (p *pair) compare(b *testing.B, ours, plain func(dst sdk.VolumeID) error) {
	var took [2]time.Duration
	b.SetBytes(p.size)
	n := 0
	for b.Loop() {
		for i := range took {
			i = (i + n) % 2
			b.StopTimer()
			dst := newID()
			must(b, p.to.CreateVolume(p.ctx, sdk.VolumeSpec{ID: dst, Token: "t"}))
			begun := time.Now()
			if i == 0 {
				b.StartTimer()
				must(b, ours(dst))
			} else {
				must(b, plain(dst))
			}
			took[i] += time.Since(begun)
			b.StopTimer()
			must(b, p.to.DestroyVolume(p.ctx, dst))
			b.StartTimer()
		}
		n++
	}
	b.ReportMetric(float64(took[0])/float64(took[1]), "ratio")
	b.ReportMetric(took[1].Seconds()/float64(n), "plain-s/op")
}

func (p *pair) relay(dst sdk.VolumeID) error {
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := p.from.StreamOut(p.ctx, p.source, sdk.StreamOut{Encoding: encodingZstd}, w)
		w.CloseWithError(err)
		sent <- err
	}()
	err := p.to.StreamIn(p.ctx, dst, sdk.StreamIn{Encoding: encodingZstd}, r)
	r.Close()
	return errors.Join(err, <-sent)
}

func (p *pair) peer(dst sdk.VolumeID) error {
	t, err := p.to.PeerTicket(p.ctx, dst, sdk.StreamIn{})
	if err != nil {
		return err
	}
	return p.from.PeerSend(p.ctx, p.source, sdk.StreamOut{}, t)
}

// plain pipes one response into one request.
func (p *pair) plain(dst sdk.VolumeID) error {
	out, err := p.request(p.from, baggageclaim.StreamOut, p.source, url.Values{"path": {"."}}, http.NoBody)
	if err != nil {
		return err
	}
	out.Header.Set("Accept-Encoding", encodingZstd)
	resp, err := http.DefaultClient.Do(out)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in, err := p.request(p.to, baggageclaim.StreamIn, dst, url.Values{"path": {""}}, io.NopCloser(resp.Body))
	if err != nil {
		return err
	}
	in.Header.Set("Content-Encoding", encodingZstd)
	return p.answer(in, http.StatusNoContent)
}

func (p *pair) plainPeer(dst sdk.VolumeID) error {
	base, err := p.to.peerURL(p.ctx)
	if err != nil {
		return err
	}
	req, err := p.request(p.from, baggageclaim.StreamP2pOut, p.source, url.Values{
		"path": {"."}, "encoding": {encodingZstd}, "streamInURL": {base + "/volumes/" + string(dst) + "/stream-in?path="},
	}, http.NoBody)
	if err != nil {
		return err
	}
	return p.answer(req, http.StatusOK)
}

func (p *pair) request(s *Store, route string, id sdk.VolumeID, query url.Values, body io.Reader) (*http.Request, error) {
	req, err := rata.NewRequestGenerator(s.config.URL, baggageclaim.Routes).CreateRequest(route, rata.Params{"handle": string(id)}, body)
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = query.Encode()
	return req.WithContext(p.ctx), nil
}

func (p *pair) answer(req *http.Request, want int) error {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != want {
		return fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	return nil
}
