package conformance

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing/iotest"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// stressCases do what is large or much, and look at memory meanwhile. With [Options.Short] they do a part of it.
func stressCases() []Case {
	must := func(id, title, doc string, run func(context.Context, *C), promise string, env ...Requirement) Case {
		return Case{ID: id, Title: title, Doc: doc, Promises: []string{promise}, Level: Must, Profile: Stress, Run: run, Env: env, Exclusive: true, Timeout: 20 * time.Minute}
	}
	return []Case{
		must("G01-huge-output", "two GiB of output come whole, byte for byte, and pass through bounded memory", "Catches positions of 32 bits, and journals that only grow.", runHugeOutput, "5a", EnvProbe),
		must("G02-huge-stdin", "two GiB of stdin come whole, and pass through bounded memory", "Catches counts of 32 bits, and what is kept although it was taken.", runHugeStdin, "7a", EnvProbe),
		must("G03-huge-archive", "an archive of two GiB streams in through bounded memory", "Catches archives that are read to their end before they are unpacked.", runHugeArchive, "9s"),
		must("G04-huge-tree", "two GiB of files, or as much as the worker has room for, stream out whole and through bounded memory", "Catches archives that are made before they are sent.", runHugeTree, "9s"),
		must("G05-containers", "a hundred containers at once each have processes, files and output of their own", "Catches bounds that nobody told of, and things that are named after too little.", runManyContainersAtOnce, "1g"),
		must("G06-in-a-row", "of a thousand processes in a row in one container the first exit is known like the last", "Catches records that make room for others.", runInARow, "6e"),
		must("G07-at-once", "sixty-four processes of one container are followed at once, one by somebody slow, and none waits for another", "Catches pools of followers, of threads, of connections.", runFollowedAtOnce, "5l"),
		must("Q01-leaks", "two hundred containers, as many that are refused, and streams that are cut leave the plugin with the descriptors it had", "Catches what nobody closes where something fails: the plugin of a busy worker ends for want of files, in a week.", runLeaks, "2d"),
		must("G08-streams-at-once", "thirty-two streams go in and out of volumes at once", "Catches pools of streams, and what is shared between them.", runStreamsAtOnce, "9s"),
	}
}

// huge is how much a case of this kind moves, and most how much memory it may take.
func (c *C) huge() (total, most int64) {
	if c.Short || c.suite.opts.Small {
		return 96 << 20, 40 << 20
	}
	return 2<<30 + 1, 512 << 20
}

// smallSpill keeps a journal from being what takes the memory.
func smallSpill(s *sdk.ProcessSpec) { s.Spill = 4 << 20 }

// eagerAcks acknowledges as it goes.
type eagerAcks struct{ ch chan sdk.Position }

func newEagerAcks() eagerAcks { return eagerAcks{make(chan sdk.Position, 1)} }

func (a eagerAcks) say(p sdk.Position) {
	select {
	case <-a.ch: // an older one that was not received yet
	default:
	}
	a.ch <- p
}

func runHugeOutput(ctx context.Context, c *C) {
	total, most := c.huge()
	id := c.Container(ctx)
	pattern := func(n int64) []string { return []string{"pattern", "7", strconv.FormatInt(n, 10), "65536"} }
	c.Exec(ctx, id, c.Probe(pattern(8<<20)...)) // the runtime's own first steps are not what is measured
	want := newGenerator(7)
	buf := make([]byte, sdk.MaxRecordBytes)
	var n int64
	var exit *sdk.Exit
	c.Bounded(most, "huge output", func() {
		p := c.Start(ctx, id, c.Probe(pattern(total)...), smallSpill)
		acks := newEagerAcks()
		err := c.W.FollowProcess(ctx, id, p, 0, sdk.Follow{Acks: acks.ch, Output: func(rs []sdk.Record) error {
			for _, r := range rs {
				want.fill(buf[:len(r.Data)])
				if r.Stream != sdk.Stdout || !bytes.Equal(r.Data, buf[:len(r.Data)]) {
					c.Errorf("output is exact per stream", "of %d bytes what comes at %d on %s is another", total, r.Position, r.Stream)
					return callerError{}
				}
				n += int64(len(r.Data))
			}
			acks.say(rs[len(rs)-1].End())
			return nil
		}, Exit: func(e sdk.Exit) error { exit = &e; return nil }})
		if err != (callerError{}) {
			c.OK(err, "following")
		}
	})
	if !c.Failed() && (n != total || exit == nil || exit.Code != 0) {
		c.Errorf("output is exact per stream", "%d bytes came of %d, and %s", n, total, exitText(exit))
	}
}

func runHugeStdin(ctx context.Context, c *C) {
	total, most := c.huge()
	id := c.Container(ctx)
	c.FollowStdin(ctx, id, c.Start(ctx, id, c.Probe("hash"), WithStdin), io.LimitReader(newGenerator(1), 8<<20))
	c.Bounded(most, "huge stdin", func() {
		in := hashed(io.LimitReader(newGenerator(9), total))
		j := c.FollowStdin(ctx, id, c.Start(ctx, id, c.Probe("hash"), WithStdin), in)
		c.WantOutput(j, fmt.Sprintf("%d %x\n", total, in.sum()), "", "the checksum of %d bytes of stdin", total)
		c.WantExit(j, 0, "the checksum of %d bytes of stdin", total)
	})
}

// manyTimes writes an archive of so many bytes in which one file comes again and again, so that little is left of it.
func manyTimes(w io.Writer, total int64, one []byte) error {
	t := tar.NewWriter(w)
	for left := total; left > 0; left -= int64(len(one)) {
		h := &tar.Header{Name: "f", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(one)), ModTime: time.Unix(someTime, 0), Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(one); err != nil {
			return err
		}
	}
	return t.Close()
}

func runHugeArchive(ctx context.Context, c *C) {
	total, most := c.huge()
	one := make([]byte, 4<<20)
	newGenerator(3).fill(one)
	stream := func(id sdk.VolumeID, total int64) {
		r, w := io.Pipe()
		defer r.Close()
		c.Go(func(context.Context) { w.CloseWithError(manyTimes(w, total, one)) })
		c.OK(c.W.StreamIn(ctx, id, sdk.StreamIn{}, r), "streaming in an archive of %d bytes", total)
	}
	stream(c.Volume(ctx), 8<<20)
	id := c.Volume(ctx)
	c.Bounded(most, "a huge archive", func() { stream(id, total) })
	c.WantTree(c.Tree(ctx, id, ""), []Entry{File("f", string(one))}, 0, "what is left of an archive of %d bytes", total)
}

func runHugeTree(ctx context.Context, c *C) {
	total, most := c.huge()
	one := make([]byte, 4<<20)
	newGenerator(5).fill(one)
	id, files := c.bigTree(ctx, total, one)
	most = min(most, int64(files)*int64(len(one))/2)
	c.OK(c.W.StreamOut(ctx, id, sdk.StreamOut{Path: "f0"}, io.Discard), "streaming one file out")
	c.Bounded(most, "a huge tree", func() {
		r, w := io.Pipe()
		defer r.Close()
		c.Go(func(ctx context.Context) { w.CloseWithError(c.W.StreamOut(ctx, id, sdk.StreamOut{}, w)) })
		got, buf := 0, make([]byte, len(one)+1)
		for t := tar.NewReader(r); ; {
			h, err := t.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			c.OK(err, "reading what streams out after %d files", got)
			if h.Typeflag != tar.TypeReg {
				continue
			}
			n, err := io.ReadFull(t, buf)
			if !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.Equal(buf[:n], one) {
				c.Fatalf("a tree comes out as it went in", "%q came out with %d bytes or more (%v), want the %d that went in", h.Name, n, err, len(one))
			}
			got++
		}
		_, err := io.Copy(io.Discard, r)
		c.OK(err, "streaming %d files out", files)
		if got != files {
			c.Errorf("a tree comes out as it went in", "%d files came out, want %d", got, files)
		}
	})
}

// bigTree fills a volume with files of one content, as many as make total bytes, or half of them and so on where the worker has no room.
func (c *C) bigTree(ctx context.Context, total int64, one []byte) (id sdk.VolumeID, files int) {
	for files = int(total) / len(one); files >= 8; files /= 2 {
		id = c.Volume(ctx)
		r, w := io.Pipe()
		c.Go(func(context.Context) {
			t := tar.NewWriter(w)
			for i := range files {
				h := &tar.Header{Name: fmt.Sprintf("f%d", i), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(one)), ModTime: time.Unix(someTime, 0), Format: tar.FormatPAX}
				if t.WriteHeader(h) != nil {
					return // the reader is gone, and says why
				}
				if _, err := t.Write(one); err != nil {
					return
				}
			}
			w.CloseWithError(t.Close())
		})
		err := c.W.StreamIn(ctx, id, sdk.StreamIn{}, r)
		r.Close()
		if err == nil {
			return id, files
		}
		if !errors.Is(err, sdk.ReasonTooLarge) { // it can never fit
			c.WantClass(err, sdk.Exhausted, "a worker without room says so", "streaming in %d files", files)
		}
		c.OK(c.W.DestroyVolume(ctx, id), "destroying what there was no room for")
	}
	c.EnvMissing("the worker has no room for a large volume")
	return id, files
}

// some is n, or a part of it in short runs, which is as much as mutants need.
func (c *C) some(n, short int) int {
	if c.Short {
		return short
	}
	return n
}

func runManyContainersAtOnce(ctx context.Context, c *C) {
	n := c.some(100, 40)
	shared := c.Sealed(ctx, File("shared", "by all"))
	ids, own := make([]sdk.ContainerID, n), make([]sdk.VolumeID, n)
	c.Each(ctx, n, 8, func(ctx context.Context, i int) {
		own[i] = c.Volume(ctx)
		ids[i] = c.Container(ctx, c.Mounts(sdk.Mount{Volume: own[i], Path: "/own"}, sdk.Mount{Volume: shared, Path: "/shared", ReadOnly: true}))
		c.Started(ctx, ids[i], c.Commands.Sleep())
	})
	if c.Failed() {
		return
	}
	c.wantCount(ctx, n+1, n)
	c.Each(ctx, n, 8, func(ctx context.Context, i int) {
		text := fmt.Sprintf("container %d", i)
		c.WantOutput(c.Exec(ctx, ids[i], c.Commands.Append("/own/f", text)), text, "", "container %d", i)
		c.WantOutput(c.Exec(ctx, ids[i], c.Commands.CatFile("/shared/shared")), "by all", "", "container %d", i)
	})
	c.Each(ctx, n, 8, func(ctx context.Context, i int) {
		c.WantTree(c.Tree(ctx, own[i], ""), []Entry{File("f", fmt.Sprintf("container %d", i))}, IgnoreMeta, "the volume of container %d", i)
		c.OK(c.W.DestroyContainer(ctx, ids[i]), "destroying container %d", i)
	})
	c.wantCount(ctx, n+1, 0)
}

func runInARow(ctx context.Context, c *C) {
	n := c.some(1000, 150)
	id := c.Container(ctx)
	codes := make(map[sdk.ProcessID]int)
	for i := range n {
		p := c.Start(ctx, id, c.Commands.Gate(fmt.Sprintf("process %d", i), "", i%200))
		codes[p] = i % 200
		j := c.Follow(ctx, id, p)
		c.WantOutput(j, fmt.Sprintf("process %d", i), "", "process %d", i)
		c.WantExit(j, i%200, "process %d", i)
		if c.Failed() {
			return
		}
	}
	infos, err := c.W.ListProcesses(ctx, id)
	c.OK(err, "listing processes")
	for _, i := range infos {
		if i.State != sdk.ProcessExited || i.Exit == nil || i.Exit.Code != codes[i.ID] {
			c.Errorf("an exit is kept as long as the container lives", "process %q is %s with %s, want code %d", i.ID, i.State, exitText(i.Exit), codes[i.ID])
		}
		delete(codes, i.ID)
	}
	if len(codes) > 0 {
		c.Errorf("an exit is kept as long as the container lives", "%d of %d processes are not listed", len(codes), n)
	}
}

func runFollowedAtOnce(ctx context.Context, c *C) {
	const n = 64
	lines := c.some(100_000, 10_000)
	id := c.Container(ctx)
	var opened sync.WaitGroup
	opened.Add(n)
	all := make(chan struct{})
	go func() {
		opened.Wait()
		close(all)
	}()
	errs := make(chan error, n)
	quick := make(chan struct{})
	var others sync.WaitGroup
	others.Add(n - 1)
	go func() {
		others.Wait()
		close(quick)
	}()
	want := numbers(1, lines)
	for i := range n {
		c.Go(func(ctx context.Context) {
			met := sync.OnceFunc(opened.Done)
			defer met()
			if i > 0 {
				defer others.Done()
			}
			p := c.Start(ctx, id, c.Commands.Lines(lines), func(s *sdk.ProcessSpec) { s.Spill = spill })
			var j Journal
			first := true
			err := c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{
				Opened: func(sdk.Opened) error { met(); return nil },
				Output: func([]sdk.Record) error {
					wait := all
					if i == 0 {
						wait = quick // it takes nothing more until all others are done
					}
					if first {
						first = false
						select {
						case <-wait:
						case <-ctx.Done():
						}
					}
					return nil
				},
			}))
			if err == nil {
				c.WantOutput(j, want, "", "process %d of %d that are followed at once", i, n)
			}
			errs <- err
		})
	}
	for range n {
		c.OK(c.AwaitError(ctx, errs, "the end of a follower"), "following one of %d at once", n)
	}
}

func runStreamsAtOnce(ctx context.Context, c *C) {
	const n = 32
	size := c.some(4_000_000, 400_000)
	begun := make(chan struct{}, n)
	all := make(chan struct{})
	c.Go(func(ctx context.Context) {
		defer close(all)
		for range n {
			select {
			case <-begun:
			case <-ctx.Done():
				return
			}
		}
	})
	c.Each(ctx, n, n, func(ctx context.Context, i int) {
		want := []Entry{File("f", strings.Repeat(fmt.Sprintf("%02d.", i), size/3))}
		id := c.Volume(ctx)
		archive := c.Pack(want)
		// The last part comes once all streams have begun.
		met := sync.OnceFunc(func() { begun <- struct{}{} })
		defer met() // also when it fails: the others wait for it
		last := readerFunc(func([]byte) (int, error) {
			met()
			select {
			case <-all:
			case <-ctx.Done():
			}
			return 0, io.EOF
		})
		half := len(archive) / 2
		in := io.MultiReader(bytes.NewReader(archive[:half]), last, bytes.NewReader(archive[half:]))
		if err := c.W.StreamIn(ctx, id, sdk.StreamIn{}, in); err != nil {
			c.Errorf("streams do not wait for each other", "stream %d of %d at once: %s", i, n, describe(err))
			return
		}
		c.WantTree(c.Tree(ctx, id, ""), want, 0, "stream %d of %d at once", i, n)
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func runLeaks(ctx context.Context, c *C) {
	pid := 0
	if of := c.suite.inst.PID; of != nil {
		pid = of()
	}
	once := func(ctx context.Context) {
		v := c.Filled(ctx, File("f", "f"))
		id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
		c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile("/v/f")), "f", "", "a process")
		c.OK(c.W.DestroyContainer(ctx, id), "destroying a container")
		refused := c.ContainerSpec(c.Mounts(sdk.Mount{Volume: c.VolumeID(), Path: "/v"}))
		c.WantNotFound(c.W.CreateContainer(ctx, refused, nil), sdk.KindVolume, "a host must learn what is lost", "mounting a volume that is not there")
		if err := c.W.StreamOut(ctx, v, sdk.StreamOut{}, &failingWriter{}); err != (callerError{}) {
			c.Errorf("errors of the caller's own writer come back unchanged", "streaming out: got %s", describe(err))
		}
		cut := io.MultiReader(bytes.NewReader(c.Pack([]Entry{File("f", "g")})[:700]), iotest.ErrReader(callerError{}))
		if err := c.W.StreamIn(ctx, v, sdk.StreamIn{}, cut); err != (callerError{}) {
			c.Errorf("errors of the caller's own reader come back unchanged", "streaming in: got %s", describe(err))
		}
		c.OK(c.W.DestroyVolume(ctx, v), "destroying a volume")
	}
	once(ctx)
	before, ok := descriptors(pid)
	if !ok {
		c.NotObservable("the plugin's descriptors cannot be seen from here")
	}
	n := c.some(200, 40)
	c.Each(ctx, n, 4, func(ctx context.Context, _ int) { once(ctx) })
	const slack = 15
	soon, cancel := context.WithTimeout(ctx, c.Patience(DefaultTimeout/3)) // for what ends behind the last call
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		after, _ := descriptors(pid)
		if after <= before+slack {
			return
		}
		select {
		case <-tick.C:
		case <-soon.Done():
			c.Errorf("who comes and goes leaves nothing behind", "the plugin has %d descriptors open after %d containers, %d before", after, n, before)
			return
		}
	}
}
