package claim

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/concourse/baggageclaim"
	"github.com/tedsuo/rata"

	"github.com/slipway-run/slipway/sdk"
)

// Config says which server a [Store] is, and how patient it is with it.
type Config struct {
	URL string // of the server, such as http://10.0.0.5:7788

	// Zero is the default of each.
	ConnectTimeout time.Duration // of one connection: 10 s
	RequestTimeout time.Duration // of one call that moves no files: 1 min
	StreamTimeout  time.Duration // of a stream in which the server does nothing: 10 min; walking a big tree may take that long

	Imports []string // absolute paths on the server below which volumes may be imported; none: nothing is
	Zone    string   // stores of one zone send to each other; empty: no peers
	Pipes   *Pipes   // of this process, which then carries what they send; nil: servers of one zone reach each other
	Log     *slog.Logger
}

// Store is the volumes of one Baggageclaim server. Its methods may be called from many goroutines at once. It is the only one that may
// use the volumes it makes: what keeps a volume from being sealed under a stream is a lock in this process, for the server has none.
// That is enough because a host has one plugin process for a worker, and ids are of one host.
type Store struct {
	config Config
	url    string // without user, for people
	routes *rata.RequestGenerator
	http   *http.Client
	log    *slog.Logger

	reconnect time.Duration
	alarm     func(time.Duration, func()) alarm // time.AfterFunc

	locks  locks
	looks  locks // of sealed volumes that somebody looks through
	codecs codecs
	memo   memo
	found  finding

	tails  sync.WaitGroup // ends of requests that calls have left behind
	closed context.Context
	close  context.CancelFunc
}

// New makes a Store. It dials nothing.
func New(c Config) (*Store, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, sdk.NewInvalid(sdk.ReasonConfig, "baggageclaim: %q is no address of a server; it looks like http://10.0.0.5:7788", redact(c.URL))
	}
	for _, p := range c.Imports {
		if !path.IsAbs(p) || strings.Contains(p, "\x00") {
			return nil, sdk.NewInvalid(sdk.ReasonConfig, "imports: %q is no absolute path", p)
		}
	}
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 10*time.Second)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, time.Minute)
	c.StreamTimeout = cmp.Or(c.StreamTimeout, 10*time.Minute)
	s := &Store{config: c, url: u.Redacted(), log: c.Log, reconnect: reconnect, alarm: func(d time.Duration, f func()) alarm { return time.AfterFunc(d, f) }}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.routes = rata.NewRequestGenerator(strings.TrimRight(c.URL, "/"), baggageclaim.Routes)
	s.http = &http.Client{
		Transport: &http.Transport{
			// No Proxy: calls go to the server itself, as those on Garden do, whatever HTTP_PROXY says in the plugin's environment.
			DialContext:           dialer(c.ConnectTimeout),
			TLSHandshakeTimeout:   c.ConnectTimeout,
			ExpectContinueTimeout: time.Second,
			MaxIdleConnsPerHost:   32,
			IdleConnTimeout:       time.Minute,
			DisableCompression:    true, // encoded bytes are what is asked for
			WriteBufferSize:       64 << 10,
			ReadBufferSize:        64 << 10,
		},
		// A server that answers elsewhere is not the one that was configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.locks.init()
	s.looks.init()
	s.memo.init()
	s.found.init()
	s.closed, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Close ends what calls have left behind and frees the connections. The caller waits for the calls themselves first. Idempotent.
func (s *Store) Close() error {
	s.close()
	s.tails.Wait()
	s.http.CloseIdleConnections()
	return nil
}

// redact takes a password out of what may not even be an address.
func redact(raw string) string {
	if u, err := url.Parse(raw); err == nil {
		return u.Redacted()
	}
	return "an address that cannot be read"
}
