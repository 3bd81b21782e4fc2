//go:build linux

package claim

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestFrames checks that a stream counts as whole exactly where a decoder finds it whole, whatever pieces it comes in.
func TestFrames(t *testing.T) {
	long := bytes.Repeat([]byte("some text that compresses "), 30_000)
	samples := map[string][]byte{"text": long, "noise": []byte(random(300_000)), "one byte": {1}, "zeros": make([]byte, 500_000)}
	streams := make(map[string][]byte)
	for name, data := range samples {
		for option, o := range map[string]zstd.EOption{
			"plain": zstd.WithEncoderCRC(true), "no checksum": zstd.WithEncoderCRC(false), "single": zstd.WithSingleSegment(true), "small window": zstd.WithWindowSize(1 << 10),
		} {
			var b bytes.Buffer
			e, err := zstd.NewWriter(&b, o)
			if err != nil {
				t.Fatal(err)
			}
			e.Write(data)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			streams[name+", "+option] = b.Bytes()
			streams[name+", at once, "+option] = e.EncodeAll(data, nil)
		}
	}
	skip := []byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}
	text := streams["text, plain"]
	streams["two frames"] = append(bytes.Clone(text), streams["noise, plain"]...)
	streams["with something to skip"] = append(append(bytes.Clone(skip), text...), skip...)
	whole := func(data []byte, step int) bool {
		var f frames
		for len(data) > 0 {
			n := min(step, len(data))
			if f.add(data[:n]) != nil {
				return false
			}
			data = data[n:]
		}
		return f.whole()
	}
	for name, data := range streams {
		for _, step := range []int{1, 7, 4096, len(data)} {
			if !whole(data, step) {
				t.Errorf("%s in pieces of %d does not count as whole", name, step)
			}
		}
		for _, tail := range []string{"{\"error\":\"x\"}\n", "x", "\x00"} {
			if whole(append(bytes.Clone(data), tail...), 4096) {
				t.Errorf("%s with %q after it counts as whole", name, tail)
			}
		}
		if name == "two frames" || name == "with something to skip" {
			continue
		}
		for cut := range len(data) {
			if cut%997 == 0 || cut < 40 || cut > len(data)-40 {
				if whole(data[:cut], 4096) {
					t.Errorf("%s counts as whole after %d of %d bytes", name, cut, len(data))
				}
			}
		}
	}
}

func TestResolve(t *testing.T) {
	l := &links{at: map[string]link{
		"abs": {target: "/d"}, "up": {target: "../../.."}, "d/sub": {target: "../e/./f"}, "loop": {target: "loop"}, "chain": {target: "d/sub"}, "e/f/out": {target: "/../../abs/x"},
	}}
	for p, want := range map[string]string{
		"x": "x", "abs": "abs", "abs/x": "d/x", "up/x": "x", "d/sub/x": "e/f/x", "chain/x/y": "e/f/x/y", "chain/out/y": "d/x/y", "d/sub": "d/sub", "loop": "loop",
	} {
		if got, err := l.resolve(p); err != nil || got != want {
			t.Errorf("%q leads to %q (%v), want %q", p, got, err, want)
		}
	}
	if got, err := l.resolve("loop/x"); err == nil {
		t.Errorf("a loop leads to %q", got)
	}
}
