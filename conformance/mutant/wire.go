package mutant

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slipway-run/slipway/conformance/internal/wire"
)

// fault is what a program does wrong on the wire. What is not set it does right.
type fault struct {
	banner    string // printed before the handshake
	elsewhere bool   // the socket is not where the host has asked for it
	chatty    string // it prints a line for each call of that method; "*": for all calls
	noStdin   bool   // the end of stdin is not heard
	noTerm    bool   // nor is SIGTERM
	diesOfInt bool

	// call answers in the plugin's place: ok, with a message that may be nil, or with an error.
	call func(c *call) (answer []byte, ok bool, err error)
	// up changes a message to the plugin; nil: it gets none.
	up func(c *call, m wire.Message, newer bool) (wire.Message, error)
	// upEnd adds a message at the client's end of a call; nil: none.
	upEnd func(c *call) wire.Message
	// down changes a message from the plugin; nil: the client gets none. With last it is the last.
	down func(c *call, m wire.Message) (_ wire.Message, last bool)
	// fails changes how a call failed.
	fails func(*status.Status) error
}

// call is one call through a program that is broken on the wire.
type call struct {
	method string // such as "Worker/Status"
	proxy  *proxy

	// Of a StreamIn, what has gone up.
	bytes int64
	crc   uint32
	whole bool // with a trailer, or an abort
}

// count counts a frame of a StreamIn.
func (c *call) count(m wire.Message) {
	data := m.Bytes("data")
	c.bytes += int64(len(data))
	c.crc = crc32.Update(c.crc, crc32.MakeTable(crc32.Castagnoli), data)
	c.whole = c.whole || m.Has("trailer") || m.Has("abort")
}

// trailer is one that fits.
func (c *call) trailer() wire.Message {
	return wire.Message{"trailer": wire.Message{"bytes": c.bytes, "crc32c": c.crc}}
}

// wireMutants are broken in how the program begins, ends and speaks: each is a process of its own, in front of the plugin's.
func wireMutants() []Mutant {
	one := func(id, doc string, rule int, killer string, f fault) Mutant {
		return Mutant{ID: id, Doc: doc, Rule: rule, Killers: []string{killer}, wire: &f}
	}
	hangs := func(m Mutant) Mutant { m.Hangs = true; return m }
	streamIn := func(change func(c *call, m wire.Message) wire.Message) func(*call, wire.Message, bool) (wire.Message, error) {
		return func(c *call, m wire.Message, _ bool) (wire.Message, error) {
			if c.method == "Data/StreamIn" {
				c.count(m)
				m = change(c, m)
			}
			return m, nil
		}
	}
	return []Mutant{
		one("banner-first", "a banner is printed on stdout before the handshake", 0, "J01-handshake", fault{banner: "memory plugin, version 1"}),
		one("socket-elsewhere", "the socket lies in the directory for temporary files", 0, "J01-handshake", fault{elsewhere: true}),
		one("words-on-stdout", "calls are logged to stdout", 0, "J03-stdout", fault{chatty: "*"}),
		one("words-at-a-start", "each start of a process is logged to stdout", 0, "J03-stdout", fault{chatty: "Worker/StartProcess"}),
		one("no-health-service", "the health service of gRPC is not served", 0, "J04-health", fault{
			call: func(c *call) ([]byte, bool, error) {
				if c.method == "grpc.health.v1.Health/Check" {
					return nil, false, status.Error(codes.Unimplemented, "unknown service grpc.health.v1.Health")
				}
				return nil, false, nil
			}}),
		one("settings-not-awaited", "calls before Configure are answered as if there were settings", 0, "J05-before-configure", fault{
			call: func(c *call) ([]byte, bool, error) {
				return nil, c.method == "Worker/Status" && c.proxy.worker() == "", nil
			}}),
		one("configured-again", "a second Configure succeeds", 0, "J06-configure-once", fault{
			call: func(c *call) ([]byte, bool, error) {
				return nil, c.method == "Plugin/Configure" && c.proxy.worker() != "", nil
			}}),
		one("snapshot-is-all", "Workers ends after its first message", 4, "J07-workers-stay", fault{
			down: func(c *call, m wire.Message) (wire.Message, bool) { return m, c.method == "Plugin/Workers" }}),
		one("no-snapshot", "Workers begins with what is new", 4, "J07-workers-stay", fault{
			down: func(c *call, m wire.Message) (wire.Message, bool) {
				if c.method == "Plugin/Workers" {
					m["kind"] = "WORKER_EVENT_KIND_UPSERT"
				}
				return m, false
			}}),
		hangs(one("stdin-unheard", "the end of stdin is not noticed", 0, "J08-stdin-end", fault{noStdin: true})),
		hangs(one("term-unheard", "SIGTERM is ignored", 0, "J09-term", fault{noTerm: true})),
		one("dies-of-int", "SIGINT ends the program", 0, "J10-int", fault{diesOfInt: true}),
		one("trailer-not-awaited", "a stream in is whole where the client has closed its half", 9, "J11-stream-in-cut", fault{
			up: streamIn(func(_ *call, m wire.Message) wire.Message { return m }),
			upEnd: func(c *call) wire.Message {
				if c.method != "Data/StreamIn" || c.whole {
					return nil
				}
				return c.trailer()
			}}),
		one("trailer-unread", "what the trailer of a stream in says is not looked at", 9, "J11-stream-in-cut", fault{
			up: streamIn(func(c *call, m wire.Message) wire.Message {
				if m.Has("trailer") {
					return c.trailer()
				}
				return m
			})}),
		one("checksum-unread", "of the trailer of a stream in only the length is looked at", 9, "J11-stream-in-cut", fault{
			up: streamIn(func(c *call, m wire.Message) wire.Message {
				if t := m.At("trailer"); t != nil {
					return wire.Message{"trailer": wire.Message{"bytes": t["bytes"]}}
				}
				return m
			})}),
		one("abort-is-end", "an abort is taken for the end of the archive", 9, "J11-stream-in-cut", fault{
			up: streamIn(func(c *call, m wire.Message) wire.Message {
				if m.Has("abort") {
					return c.trailer()
				}
				return m
			})}),
		one("checksum-wanted", "a stream in without a checksum is damaged", 9, "J12-trailers", fault{
			up: streamIn(func(_ *call, m wire.Message) wire.Message {
				if t := m.At("trailer"); t != nil && !t.Has("crc32c") {
					return wire.Message{"trailer": wire.Message{"bytes": t["bytes"], "crc32c": 0}}
				}
				return m
			})}),
		one("no-trailer", "a stream out ends without its trailer", 9, "J12-trailers", fault{
			down: func(c *call, m wire.Message) (wire.Message, bool) {
				if c.method == "Data/StreamOut" && m.Has("trailer") {
					return nil, true
				}
				return m, false
			}}),
		one("ends-with-exit", "a follower's call ends as soon as the exit is told", 5, "J13-last-ack", fault{
			down: func(c *call, m wire.Message) (wire.Message, bool) {
				return m, c.method == "Data/FollowProcess" && m.Has("exit")
			}}),
		one("half-close-is-eof", "a follower that closes its half of the call ends the process's stdin", 7, "J14-half-close", fault{
			upEnd: func(c *call) wire.Message {
				if c.method != "Data/FollowProcess" {
					return nil
				}
				return wire.Message{"stdin_end": wire.Message{}}
			}}),
		one("codes-only", "errors have a code and words, and no details", 14, "J15-error-detail", fault{
			fails: func(s *status.Status) error { return status.Error(s.Code(), s.Message()) }}),
		one("one-code", "every error has the code UNKNOWN, whatever its details say", 14, "J15-error-detail", fault{
			fails: func(s *status.Status) error {
				p := s.Proto()
				p.Code = int32(codes.Unknown)
				return status.ErrorProto(p)
			}}),
		one("worker-unread", "every call is meant for the only worker, whatever name it has", 3, "J16-unknown-worker", fault{
			up: func(c *call, m wire.Message, _ bool) (wire.Message, error) {
				for _, of := range []wire.Message{m, m.At("header")} {
					if of.Has("worker") {
						of["worker"] = c.proxy.worker()
					}
				}
				return m, nil
			}}),
		one("value-taken-for-default", "a value of an enum that is not known counts as none", 14, "J18-unknown-value", fault{
			up: func(_ *call, m wire.Message, _ bool) (wire.Message, error) {
				if _, unknown := m["when_full"].(float64); unknown { // those that are known have names
					delete(m, "when_full")
				}
				return m, nil
			}}),
		one("variables-unchecked", "what is no variable is left out of the environment", 14, "J19-start-refused", fault{
			up: func(_ *call, m wire.Message, _ bool) (wire.Message, error) {
				if env, ok := m["env"].([]any); ok {
					m["env"] = slices.DeleteFunc(env, func(one any) bool {
						b, _ := base64.StdEncoding.DecodeString(fmt.Sprint(one))
						return bytes.IndexByte(b, '=') < 1
					})
				}
				return m, nil
			}}),
		one("newer-refused", "a message with a field that is not known is refused", 14, "J17-newer-host", fault{
			up: func(_ *call, m wire.Message, newer bool) (wire.Message, error) {
				if newer {
					return nil, status.Error(codes.InvalidArgument, "unknown field")
				}
				return m, nil
			}}),
	}
}

// nameOf is a method as the published files name it.
func nameOf(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, "/"), wire.Package)
}

// worker is the name of the first worker that was configured; empty: none yet.
func (p *proxy) worker() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first
}

// heed learns from a message what later ones are held against.
func (p *proxy) heed(method string, m wire.Message) {
	if method != "Plugin/Configure" {
		return
	}
	workers, _ := m["workers"].([]any)
	if len(workers) == 0 {
		return
	}
	first, _ := workers[0].(map[string]any)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == "" {
		p.first = wire.Message(first).Text("name")
	}
}
