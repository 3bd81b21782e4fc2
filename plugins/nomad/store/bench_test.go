//go:build linux

package store

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
)

const benchBytes = 256 << 20

// benchArchive is an archive of one file of random bytes.
func benchArchive(b *testing.B) []byte {
	b.Helper()
	random := make([]byte, benchBytes)
	rand.Read(random)
	var a bytes.Buffer
	a.Grow(benchBytes + 4096)
	w := tar.NewWriter(&a)
	if err := w.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: benchBytes, Uid: os.Getuid(), Gid: os.Getgid()}); err != nil {
		b.Fatal(err)
	}
	if _, err := w.Write(random); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return a.Bytes()
}

// plain copies the same bytes by one TLS connection inside this process, from a reader or file to a writer or file.
func plain(b *testing.B, from io.Reader, to io.Writer) time.Duration {
	b.Helper()
	certified := httptest.NewTLSServer(nil) // which is only for its certificate
	defer certified.Close()
	lis, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS13})
	if err != nil {
		b.Fatal(err)
	}
	defer lis.Close()
	sent := make(chan error, 1)
	began := time.Now()
	go func() {
		c, err := tls.Dial("tcp", lis.Addr().String(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
		if err == nil {
			_, err = io.Copy(c, from)
			c.Close()
		}
		sent <- err
	}()
	c, err := lis.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	if _, err := io.Copy(to, c); err != nil {
		b.Fatal(err)
	}
	if err := <-sent; err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// measure runs what moves benchBytes, in turns with its floor. "of-tls" is its speed as a share of that.
func measure(b *testing.B, prepare func() (id sdk.VolumeID, undo func()), move func(id sdk.VolumeID) error, floor func() time.Duration) {
	b.Helper()
	b.SetBytes(benchBytes)
	var own, least time.Duration
	for b.Loop() {
		b.StopTimer()
		id, undo := prepare()
		least += floor()
		b.StartTimer()
		began := time.Now()
		if err := move(id); err != nil {
			b.Fatal(err)
		}
		own += time.Since(began)
		b.StopTimer()
		undo()
		b.StartTimer()
	}
	b.ReportMetric(float64(least)/float64(own), "of-tls")
}

// fresh makes an open volume.
func fresh(b *testing.B, s *storenet.Store) func() (sdk.VolumeID, func()) {
	n := 0
	return func() (sdk.VolumeID, func()) {
		n++
		id := sdk.VolumeID("v" + itoa(n))
		if err := s.CreateVolume(b.Context(), sdk.VolumeSpec{ID: id, Token: "t"}); err != nil {
			b.Fatal(err)
		}
		return id, func() {
			if err := s.DestroyVolume(b.Context(), id); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// peak is the most memory that the process has had, in MiB.
func (p *process) peak(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", itoa(p.cmd.Process.Pid), "status"))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(kib) / 1024
		}
	}
	b.Fatal("the system does not tell how much memory a process has had")
	return 0
}

// BenchmarkStore moves 256 MiB between this process and a store, and between two stores. Its floor is one TLS connection that writes a file where the store does, or reads one.
func BenchmarkStore(b *testing.B) {
	from, to := serve(b, b.TempDir()), serve(b, b.TempDir())
	src, dst := from.client(), to.client()
	text := benchArchive(b)
	if err := src.CreateVolume(b.Context(), sdk.VolumeSpec{ID: "src", Token: "t"}); err != nil {
		b.Fatal(err)
	}
	if err := src.StreamIn(b.Context(), "src", sdk.StreamIn{}, bytes.NewReader(text)); err != nil {
		b.Fatal(err)
	}
	seal(b, src, "src")
	file := func() *os.File {
		f, err := os.Open(from.volumeFile("src", "data/file"))
		if err != nil {
			b.Fatal(err)
		}
		return f
	}
	written := func(from io.Reader) time.Duration {
		f, err := os.Create(filepath.Join(b.TempDir(), "file"))
		if err != nil {
			b.Fatal(err)
		}
		defer os.Remove(f.Name())
		defer f.Close()
		return plain(b, from, f)
	}
	b.Run("in", func(b *testing.B) {
		measure(b, fresh(b, dst), func(id sdk.VolumeID) error {
			return dst.StreamIn(b.Context(), id, sdk.StreamIn{}, bytes.NewReader(text))
		}, func() time.Duration { return written(bytes.NewReader(text)) })
	})
	b.Run("out", func(b *testing.B) {
		same := func() (sdk.VolumeID, func()) { return "src", func() {} }
		measure(b, same, func(id sdk.VolumeID) error {
			return src.StreamOut(b.Context(), id, sdk.StreamOut{}, io.Discard)
		}, func() time.Duration {
			f := file()
			defer f.Close()
			return plain(b, f, io.Discard)
		})
	})
	b.Run("peer", func(b *testing.B) {
		measure(b, fresh(b, dst), func(id sdk.VolumeID) error {
			ticket, err := dst.PeerTicket(b.Context(), id, sdk.StreamIn{})
			if err != nil {
				return err
			}
			return src.PeerSend(b.Context(), "src", sdk.StreamOut{}, ticket)
		}, func() time.Duration {
			f := file()
			defer f.Close()
			return written(f)
		})
		b.ReportMetric(max(from.peak(b), to.peak(b)), "MiB-peak")
	})
}
