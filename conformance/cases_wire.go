package conformance

import (
	"context"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-run/slipway/conformance/internal/wire"
	"github.com/slipway-run/slipway/sdk"
)

// wireCases check what a well-behaved client of the SDK never shows: how the program begins and ends, and what it makes of calls that are cut, early, late or
// newer.
func wireCases() []Case {
	one := func(id, title, doc string, run func(context.Context, *C), promises ...string) Case {
		return Case{ID: id, Title: title, Doc: doc, Promises: append([]string{}, promises...), Level: Must, Profile: Wire, Env: []Requirement{EnvProgram}, Run: run, Timeout: 2 * DefaultTimeout}
	}
	byHand := one("J02-by-hand", "started without the host's variable, the program says so and ends with a failure",
		"A person who starts a plugin sees a program that waits for nobody, or a line that means nothing to them.", runByHand)
	byHand.Level = Should
	return []Case{
		one("J01-handshake", "the first line on stdout is 1|1|unix|PATH|grpc|, with a socket where the host has asked for it, and Info is answered there",
			"It is all that a host knows of a program that it has started. What comes before it, a banner or a warning, is taken for it.", runHandshake),
		byHand,
		one("J03-stdout", "nothing is printed on stdout after the handshake", "A host reads no more there than it must: a program that goes on printing may wait for a reader for ever.", runStdout),
		one("J04-health", "the health service of gRPC says that the plugin serves, and Plugin.Health answers", "Supervisors ask the one, hosts the other; a plugin that does not answer is killed as hung.", runHealth),
		one("J05-before-configure", "what needs settings is FailedPrecondition before Configure", "A call that works before it has settings works with those of somebody else.", runBeforeConfigure),
		one("J06-configure-once", "a second Configure is FailedPrecondition", "A plugin that takes new settings while containers run has two truths of where they are.", runConfigureOnce),
		one("J07-workers-stay", "Workers begins with a snapshot and goes on until it is cancelled",
			"A stream that ends after its snapshot has its host ask again and again, and miss whatever changes in between.", runWorkersStay, "4e"),
		one("J08-stdin-end", "at the end of its stdin the program ends, whatever calls run", "A host that was killed can say nothing. Its plugins stay behind, one for each time it was started.", runStdinEnd),
		one("J09-term", "on SIGTERM the program ends, whatever calls run", "Supervisors, containers and hosts end a program by it, and kill it a little later.", runTerm),
		one("J10-int", "SIGINT ends nothing", "A terminal sends it to the host and to its plugins. One that dies of it is not there when the host cleans up.", runInt),
		one("J11-stream-in-cut", "a StreamIn that is aborted, without its trailer, or with one that does not fit, fails",
			"The archive may look whole where the connection broke. What is taken for whole is sealed, cached and used.", runStreamInCut, "9t"),
		one("J12-trailers", "a stream out ends with a trailer that fits its chunks, which are at most 1 MiB, and a trailer without a checksum is taken",
			"A host takes a stream without its trailer for cut, and a chunk that is too large for a defect.", runTrailers, "9t"),
		one("J13-last-ack", "a follower that has been told the exit is heard until it has acknowledged all",
			"A call that ends with the exit loses the last acknowledgement: the record never shrinks, and its output is kept for ever.", runLastAck, "5k"),
		one("J14-half-close", "a follower that closes its half of the call ends no stdin", "A lost connection looks the same. A process that reads its input to the end then works on half of it.", runHalfClose, "7c"),
		one(errorDetailID, "an error has the slipway Error among its details, with class, kind, id and reason, and the code that belongs to the class",
			"A host decides by the class and its reason. Libraries that send a code and a text alone leave it to guess.", runErrorDetail, "14a"),
		one("J16-unknown-worker", "every call names its worker, and one that is not there is NotFound of a worker",
			"A plugin that knows one worker and looks at no name does on it what was meant for another.", runUnknownWorker, "3e"),
		one("J17-newer-host", "fields and frames that this version does not know are ignored", "Contracts grow. A plugin that refuses what it does not know ends with the next version of its host.", runNewerHost, "14i"),
		one("J18-unknown-value", "a value of an enum that this version does not know is Invalid with the reason spec, and starts nothing",
			"A newer host asks for what an older plugin cannot do. To take the value for the default does something else than was asked, and nobody hears of it.", runUnknownValue, "14i"),
		one("J19-start-refused", "a start that can never work is Invalid, with the reason spec or path, and leaves no record",
			"A library of the host's may check what it sends, and that of another host may not. What is not checked here ends up in a command line, or in the kernel.", runStartRefused, "14e", "13h", "1i"),
	}
}

func runHandshake(ctx context.Context, c *C) {
	w := c.shaken(ctx)
	if info := w.call(ctx, "Plugin/Info", nil); info.Text("name") == "" {
		c.Errorf("operators see a plugin by its name", "Plugin/Info gives no name")
	}
}

func runByHand(ctx context.Context, c *C) {
	proc := c.program(true)
	ctx, cancel := context.WithTimeout(ctx, c.Patience(lineTime))
	defer cancel()
	if line, err := proc.Line(ctx); err == nil && strings.HasPrefix(line, "1|") {
		c.Errorf("without the variable there is no host", "a handshake is printed without %s: %.200q", wire.CookieName, line)
	}
	if proc.Wait(ctx) == nil {
		c.Errorf("a script that starts the program by mistake must see that", "it ended with the exit code 0")
	} else if ctx.Err() != nil {
		c.Errorf("without a host there is nothing to wait for", "it still runs after %v", c.Patience(lineTime))
	}
}

func runStdout(ctx context.Context, c *C) {
	w := c.wired(ctx)
	w.call(ctx, "Worker/SealVolume", wire.Message{"worker": w.worker, "id": w.volume(ctx)})
	if c.canRun() {
		container := w.container(ctx)
		s := w.follow(ctx, container, w.start(ctx, container, c.Commands.Print("said", ""), false), 0, false)
		w.output(s, func(_ string, last wire.Message) bool { return last.Has("exit") })
	}
	w.endsBy(ctx, "the end of stdin", w.proc.CloseStdin)
	if printed := w.proc.Printed(); printed != "" {
		c.Errorf("stdout belongs to the handshake: log to stderr", "after its handshake the program printed %.200q", printed)
	}
}

func runHealth(ctx context.Context, c *C) {
	w := c.shaken(ctx)
	m := w.call(ctx, "grpc.health.v1.Health/Check", wire.Message{"service": "plugin"})
	if s := m.Text("status"); s != "SERVING" {
		c.Errorf("what is not serving is not used", "grpc.health.v1.Health/Check of the service \"plugin\" says %s, want SERVING", s)
	}
	w.call(ctx, "Plugin/Health", nil)
}

func runBeforeConfigure(ctx context.Context, c *C) {
	w := c.shaken(ctx)
	const why = "nothing can be said of workers before the settings are there"
	_, err := w.ask(ctx, "Plugin/Workers", nil).Recv()
	w.wants(err, "CLASS_FAILED_PRECONDITION", "", why, "Plugin/Workers before Plugin/Configure")
	_, err = w.control.Call(ctx, "Worker/Status", wire.Message{"worker": w.worker})
	w.wants(err, "CLASS_FAILED_PRECONDITION", "", why, "Worker/Status before Plugin/Configure")
	_, err = w.ask(ctx, "Data/StreamOut", wire.Message{"worker": w.worker, "volume": string(c.VolumeID())}).Recv()
	w.wants(err, "CLASS_FAILED_PRECONDITION", "", why, "Data/StreamOut before Plugin/Configure")
	w.call(ctx, "Plugin/Info", nil) // may be repeated
	w.configure(ctx)                // and nothing of that was in the way
}

func runConfigureOnce(ctx context.Context, c *C) {
	w := c.shaken(ctx)
	w.configure(ctx)
	_, err := w.control.Call(ctx, "Plugin/Configure", w.settings(w.call(ctx, "Plugin/Info", nil)))
	w.wants(err, "CLASS_FAILED_PRECONDITION", "", "settings are given once in the life of a process", "a second Plugin/Configure")
}

func runWorkersStay(ctx context.Context, c *C) {
	w := c.shaken(ctx)
	w.configure(ctx)
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	workers := w.ask(asking, "Plugin/Workers", nil)
	first, err := workers.Recv()
	if err != nil {
		c.Fatalf("a host has the workers of which it was told", "the first message of Plugin/Workers: %s", tell(err))
	}
	if kind := first.Text("kind"); kind != "WORKER_EVENT_KIND_SNAPSHOT" {
		c.Errorf("a host begins with all there are", "the first message of Plugin/Workers is of kind %s, want a snapshot", kind)
	}
	ended := make(chan error, 1)
	c.Go(func(context.Context) {
		for {
			if _, err := workers.Recv(); err != nil {
				ended <- err
				return
			}
		}
	})
	select {
	case err := <-ended:
		if err == io.EOF {
			err = nil
		}
		c.Fatalf("what changes later must reach the host", "Plugin/Workers ended after its snapshot, with %s", tell(err))
	case <-time.After(c.Patience(200 * time.Millisecond)): // one that ends does so at once
	}
	cancel()
	select {
	case <-ended:
	case <-ctx.Done():
		c.Errorf("a call ends with its cancellation", "Plugin/Workers went on after it was cancelled")
	}
}

// endsBy tells the program to end, with calls under way.
func (w *wired) endsBy(ctx context.Context, what string, tell func() error) {
	workers := w.ask(ctx, "Plugin/Workers", nil)
	if _, err := workers.Recv(); err != nil {
		w.c.Fatalf("a host asks for the workers as often as it likes", "a second Plugin/Workers beside the first: %v", err)
	}
	if err := tell(); err != nil {
		w.c.Fatalf("a plugin lives until it is told to end", "%s could not be told: %v", what, err)
	}
	wait, cancel := context.WithTimeout(ctx, w.c.Patience(endTime))
	defer cancel()
	if err := w.proc.Wait(wait); wait.Err() != nil {
		w.c.Errorf("what does not end by itself is killed, and what it had not finished is left", "%v after %s the program still runs: %v", w.c.Patience(endTime), what, err)
	}
}

func runStdinEnd(ctx context.Context, c *C) {
	w := c.wired(ctx)
	w.endsBy(ctx, "the end of stdin", w.proc.CloseStdin)
}

func runTerm(ctx context.Context, c *C) {
	w := c.wired(ctx)
	w.endsBy(ctx, "SIGTERM", func() error { return w.proc.Signal(syscall.SIGTERM) })
}

func runInt(ctx context.Context, c *C) {
	w := c.wired(ctx)
	if err := w.proc.Signal(os.Interrupt); err != nil {
		c.Fatalf("a plugin lives until it is told to end", "SIGINT could not be sent: %v", err)
	}
	ended, cancel := context.WithTimeout(ctx, c.Patience(200*time.Millisecond)) // one that dies of it does so at once
	defer cancel()
	if err := w.proc.Wait(ended); ended.Err() == nil {
		c.Fatalf("a terminal sends SIGINT to all of its programs: the host says when its plugins end", "SIGINT ended the program: %v", err)
	}
	w.call(ctx, "Plugin/Health", nil)
}

// frames are those of a StreamIn of a whole archive.
func (w *wired) frames(volume string) (header, data wire.Message, trailer func(bytes int64, crc any) wire.Message, size int64, sum uint32) {
	archive := w.c.Pack([]Entry{File("a", "whole")})
	header = wire.Message{"header": wire.Message{"worker": w.worker, "volume": volume}}
	trailer = func(bytes int64, crc any) wire.Message {
		t := wire.Message{"bytes": bytes}
		if crc != nil {
			t["crc32c"] = crc
		}
		return wire.Message{"trailer": t}
	}
	return header, wire.Message{"data": archive}, trailer, int64(len(archive)), crc32.Checksum(archive, crc32.MakeTable(crc32.Castagnoli))
}

func runStreamInCut(ctx context.Context, c *C) {
	w := c.wired(ctx)
	const why = "what is not whole must not be taken for whole: the host says so with the trailer"
	for what, frames := range map[string]func(header, data wire.Message, trailer func(int64, any) wire.Message, size int64, sum uint32) []wire.Message{
		"without a trailer": func(h, d wire.Message, _ func(int64, any) wire.Message, _ int64, _ uint32) []wire.Message {
			return []wire.Message{h, d}
		},
		"with a trailer of one byte more": func(h, d wire.Message, t func(int64, any) wire.Message, size int64, sum uint32) []wire.Message {
			return []wire.Message{h, d, t(size+1, sum)}
		},
		"with a trailer of another checksum": func(h, d wire.Message, t func(int64, any) wire.Message, size int64, sum uint32) []wire.Message {
			return []wire.Message{h, d, t(size, sum^1)}
		},
		"that was aborted": func(h, d wire.Message, _ func(int64, any) wire.Message, _ int64, _ uint32) []wire.Message {
			return []wire.Message{h, d, {"abort": wire.Message{"message": "the source failed"}}}
		},
	} {
		header, data, trailer, size, sum := w.frames(w.volume(ctx))
		s := w.stream(ctx, "Data/StreamIn", frames(header, data, trailer, size, sum)...)
		if err := s.CloseSend(); err != nil {
			c.Broken(err)
		}
		_, err := s.Rest()
		if err == nil {
			c.Errorf(why, "a StreamIn %s of a whole archive: got success, want a failure", what)
		} else if what != "that was aborted" { // its sender does not ask how
			w.wants(err, "CLASS_INTERNAL", "", why, "a StreamIn %s", what)
		}
	}
}

func runTrailers(ctx context.Context, c *C) {
	w := c.wired(ctx)
	volume := w.volume(ctx)
	header, data, trailer, size, _ := w.frames(volume)
	in := w.stream(ctx, "Data/StreamIn", header, data, wire.Message{"data": []byte{}}, trailer(size, nil))
	if _, err := in.Rest(); err != nil {
		c.Errorf("few languages have that checksum: one that is absent is not checked", "a StreamIn whose trailer has no checksum, with an empty chunk, of which the client's half stays open: got %s, want success", tell(err))
	}
	frames, err := w.ask(ctx, "Data/StreamOut", wire.Message{"worker": w.worker, "volume": volume}).Rest()
	if err != nil || len(frames) < 2 {
		c.Fatalf("a volume can be read", "Data/StreamOut gave %d messages and %s", len(frames), tell(err))
	}
	var bytes int64
	crc := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	for i, f := range frames[:len(frames)-1] {
		if f.Has("trailer") {
			c.Errorf("the trailer is the end", "Data/StreamOut: message %d of %d is a trailer", i+1, len(frames))
		}
		chunk := f.Bytes("data")
		bytes += int64(len(chunk))
		_, _ = crc.Write(chunk)
		if len(chunk) > 1<<20 {
			c.Errorf("a host has room for a chunk of 1 MiB", "Data/StreamOut: a chunk has %d bytes", len(chunk))
		}
	}
	last := frames[len(frames)-1]
	if !last.Has("trailer") {
		c.Fatalf("a stream without its trailer has failed", "Data/StreamOut ended without a trailer")
	}
	t := last.At("trailer")
	if t.Int("bytes") != bytes || t.Has("crc32c") && uint32(t.Int("crc32c")) != crc.Sum32() {
		c.Errorf("a host holds the trailer against what came", "Data/StreamOut: the trailer says %d bytes with %08x, and %d with the CRC-32C (Castagnoli) %08x came", t.Int("bytes"), t.Int("crc32c"), bytes, crc.Sum32())
	}
}

// canRun reports whether a process can be had that needs nothing of what the run has brought to another process of the plugin.
func (c *C) canRun() bool {
	_, probe := c.Commands.(caseProbe)
	return !probe || !c.Status.Has(sdk.FeatureVolatile)
}

// runs ends a case that needs a process where none can be had.
func (c *C) runs() {
	if !c.canRun() {
		c.EnvMissing("the probe is a volume of the run's own process of the plugin, which keeps it to itself")
	}
}

func runLastAck(ctx context.Context, c *C) {
	c.runs()
	w := c.wired(ctx)
	container := w.container(ctx)
	s := w.follow(ctx, container, w.start(ctx, container, c.Commands.Print("said", ""), false), 0, false)
	exited := func(_ string, last wire.Message) bool { return last.Has("exit") }
	output, at := w.output(s, exited)
	if output != "said" {
		c.Errorf("output comes whole before the exit", "before the exit came %q, want \"said\"", output)
	}
	more := make(chan error, 1)
	c.Go(func(context.Context) {
		_, err := s.Recv()
		more <- err
	})
	select {
	case err := <-more:
		if err == io.EOF {
			err = nil
		}
		c.Fatalf("a call that ends before the last acknowledgement loses it, and the record never shrinks", "Data/FollowProcess ended with %s after the exit, before anything was acknowledged", tell(err))
	case <-time.After(c.Patience(100 * time.Millisecond)): // one that ends does so at once
	}
	if err := s.Send(wire.Message{"ack": at}); err != nil {
		c.Broken(err)
	}
	select {
	case err := <-more:
		if err != io.EOF {
			c.Errorf("the call ends once all is acknowledged", "Data/FollowProcess after the last acknowledgement: got %s, want its end with OK", tell(err))
		}
	case <-ctx.Done():
		c.Errorf("the call ends once all is acknowledged", "Data/FollowProcess went on after the last acknowledgement")
	}
}

func runHalfClose(ctx context.Context, c *C) {
	c.runs()
	w := c.wired(ctx)
	container := w.container(ctx)
	process := w.start(ctx, container, c.Commands.Cat(), true)
	first := w.follow(ctx, container, process, 0, true)
	if err := first.Send(wire.Message{"stdin": []byte("one ")}); err != nil {
		c.Broken(err)
	}
	w.output(first, func(output string, _ wire.Message) bool { return output == "one " })
	if err := first.CloseSend(); err != nil {
		c.Broken(err)
	}
	ended := make(chan struct{})
	c.Go(func(context.Context) {
		for {
			m, err := first.Recv()
			if err != nil {
				return // a second one follows by now
			}
			if m.Has("exit") {
				close(ended)
				return
			}
		}
	})
	select {
	case <-ended:
		c.Fatalf("the end of stdin is said, never inferred", "a process that copies its stdin has ended when its follower closed its half of the call")
	case <-time.After(c.Patience(100 * time.Millisecond)): // one whose stdin ends, ends at once
	}
	second := w.follow(ctx, container, process, 0, true)
	for _, m := range []wire.Message{{"stdin": []byte("two")}, {"stdin_end": wire.Message{}}} {
		if err := second.Send(m); err != nil {
			c.Broken(err)
		}
	}
	output, at := w.output(second, func(_ string, last wire.Message) bool { return last.Has("exit") })
	if output != "one two" {
		c.Errorf("the end of stdin is said, never inferred", "a process that copies its stdin wrote %q, want \"one two\": its first follower sent \"one \" and closed its half of the call, the second sent the rest", output)
	}
	if err := second.Send(wire.Message{"ack": at}); err != nil {
		c.Broken(err)
	}
	_, err := second.Rest()
	if err != nil {
		c.Errorf("the call ends once all is acknowledged", "Data/FollowProcess after the last acknowledgement: got %s, want its end with OK", tell(err))
	}
}

func runNewerHost(ctx context.Context, c *C) {
	w := c.wired(ctx)
	w.call(ctx, "Worker/Status", wire.Message{"worker": w.worker, "?": true})
	volume := string(c.VolumeID())
	c.tracker.add(creation{sdk.KindVolume, volume, c.main})
	w.call(ctx, "Worker/CreateVolume", wire.Message{"worker": w.worker, "id": volume, "token": string(sdk.NewToken()), "labels": c.Labels(), "?": true})
	header, data, trailer, size, sum := w.frames(volume)
	newer := wire.Message{"?": true}
	if _, err := w.stream(ctx, "Data/StreamIn", header, newer, data, newer, trailer(size, sum)).Rest(); err != nil {
		c.Errorf("what a peer does not know is ignored by it", "a StreamIn with frames of a newer version between its chunks, of which the client's half stays open: got %s, want success", tell(err))
	}
}
