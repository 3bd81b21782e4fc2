package storenet

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Request is a line from the plugin in a session. The first has Share or Seal, the second Go or Error; there are no more.
type Request struct {
	Share []sdk.VolumeID `json:"share,omitempty"`
	Seal  sdk.VolumeID   `json:"seal,omitempty"`
	Go    bool           `json:"go,omitempty"`    // of Share: no longer needed; of Seal: containers are quiet
	Error *Fault         `json:"error,omitempty"` // of Seal: they are not
}

// Reply is the store's answer to each line: Volumes to Share, Quiesce or Done to Seal, Done to a second line, or Error, which ends the session.
type Reply struct {
	Volumes map[sdk.VolumeID]Volume `json:"volumes,omitempty"`
	Quiesce bool                    `json:"quiesce,omitempty"`
	Done    bool                    `json:"done,omitempty"`
	Error   *Fault                  `json:"error,omitempty"`
}

// MaxShare is how many volumes can be shared at once.
const MaxShare = 1024

// Volume is a volume that is shared.
type Volume struct {
	State sdk.VolumeState `json:"state"` // open or sealed
	Path  string          `json:"path"`  // of its files, relative to the directory that the store was given
}

// session is one connection of KindSession.
type session struct {
	s *Store
	c net.Conn
	r *bufio.Reader
}

// session opens one. The caller closes its connection.
func (s *Store) session(ctx context.Context) (*session, error) {
	c, err := s.dial(ctx, KindSession)
	if err != nil {
		return nil, s.broken(ctx, err)
	}
	return &session{s: s, c: c, r: bufio.NewReader(c)}, nil
}

// broken is the caller's error of what went wrong with a connection.
func (s *Store) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	where := s.hello.Addresses
	s.mu.Unlock()
	return s.away(err, joined(where))
}

// say sends a line and reads the answer. After an error the session is of no use.
func (x *session) say(ctx context.Context, line Request) (Reply, error) {
	if ctx.Err() != nil {
		return Reply{}, ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { _ = x.c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer context.AfterFunc(x.s.life, func() { _ = x.c.SetDeadline(time.Unix(1, 0)) })()
	var answer Reply
	err := writeLine(x.c, line)
	if err == nil {
		err = readLine(x.r, &answer)
	}
	if err != nil {
		return Reply{}, x.s.broken(ctx, err)
	}
	if answer.Error != nil {
		return Reply{}, x.s.settle(answer.Error.Err())
	}
	return answer, nil
}

// Lease holds volumes.
type Lease struct {
	Volumes map[sdk.VolumeID]Volume

	x    *session
	once sync.Once
	err  error
}

// Share keeps volumes from being sealed and destroyed until the lease is released, or the connection of either side ends. ctx bounds
// getting it. The errors are those of volumedir.Store.Share; then none is held.
func (s *Store) Share(ctx context.Context, ids ...sdk.VolumeID) (*Lease, error) {
	if len(ids) == 0 {
		return &Lease{}, nil
	}
	if len(ids) > MaxShare {
		return nil, sdk.NewInvalid(sdk.ReasonTooLarge, "%d volumes cannot be held at once, at most %d", len(ids), MaxShare)
	}
	x, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := x.say(ctx, Request{Share: ids})
	if err != nil {
		x.c.Close()
		return nil, err
	}
	return &Lease{Volumes: answer.Volumes, x: x}, nil
}

// releaseTime bounds what is said at the end of a lease.
const releaseTime = 30 * time.Second

// Release gives the volumes back, which they are even after an error. Nil says that they were held all the time: after an error what was done under
// the lease must be undone, for they may have been sealed or destroyed meanwhile. Idempotent.
func (l *Lease) Release() error {
	l.once.Do(func() {
		if l.x == nil {
			return
		}
		defer l.x.c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
		defer cancel()
		_, l.err = l.x.say(ctx, Request{Go: true})
		if l.err != nil && ctx.Err() != nil {
			l.err = l.x.s.away(ctx.Err(), "")
		}
	})
	return l.err
}

// Abandon gives the volumes back without asking whether they were held. Use it where what was done under the lease is undone anyway.
func (l *Lease) Abandon() {
	l.once.Do(func() {
		if l.x != nil {
			l.x.c.Close()
		}
		l.err = context.Canceled
	})
}

// SealVolume is that of sdk.Worker. While the volume can neither be sealed nor destroyed by another, and nobody shares it, quiesce has every container that can write
// it start no process any more, for good, unless the volume is sealed already. Its error comes back unchanged, and nothing changes then.
func (s *Store) SealVolume(ctx context.Context, id sdk.VolumeID, quiesce func(context.Context) error) error {
	if err := sdk.CheckID(sdk.KindVolume, string(id)); err != nil {
		return err
	}
	x, err := s.session(ctx)
	if err != nil {
		return err
	}
	defer x.c.Close()
	answer, err := x.say(ctx, Request{Seal: id})
	if err != nil || answer.Done {
		return err
	}
	if !answer.Quiesce {
		return sdk.NewInternal(nil, "sealing volume %q: the store of node %s gave an answer that means nothing", id, s.o.Node)
	}
	own := quiesce(ctx)
	if own == nil {
		own = ctx.Err()
	}
	if own != nil {
		tell, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer cancel()
		_, _ = x.say(tell, Request{Error: NewFault(own)}) // that the connection ends says as much
		return own
	}
	_, err = x.say(ctx, Request{Go: true})
	return err
}

// Session is the store's side of a session: lines of a plugin, and answers to it.
type Session struct {
	c net.Conn
	r *bufio.Reader
}

// NewSession makes it of a connection of KindSession. For one goroutine that reads and one that answers.
func NewSession(c net.Conn) *Session { return &Session{c: c, r: bufio.NewReader(c)} }

// Next reads a line.
func (x *Session) Next() (Request, error) {
	var line Request
	err := readLine(x.r, &line)
	return line, err
}

// Answer sends an answer.
func (x *Session) Answer(r Reply) error { return writeLine(x.c, r) }
