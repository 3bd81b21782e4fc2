package rpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/sdk/internal/pb"
)

func encode(t testing.TB, frames ...*pb.StreamInRequest) []byte {
	t.Helper()
	var out []byte
	for _, f := range frames {
		b, err := proto.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		out = binary.AppendUvarint(out, uint64(len(b)))
		out = append(out, b...)
	}
	return out
}

// FuzzChunks gives the reader whatever messages there are. It must never yield the end of a stream whose last message is
// not a trailer that fits all bytes before it.
func FuzzChunks(f *testing.F) {
	data := func(s string) *pb.StreamInRequest {
		return &pb.StreamInRequest{Frame: &pb.StreamInRequest_Data{Data: []byte(s)}}
	}
	trailer := func(s string) *pb.StreamInRequest {
		sum := newSum()
		sum.add([]byte(s))
		return &pb.StreamInRequest{Frame: &pb.StreamInRequest_Trailer{Trailer: sum.trailer()}}
	}
	abort := &pb.StreamInRequest{Frame: &pb.StreamInRequest_Abort{Abort: &pb.Abort{Message: "why"}}}
	f.Add([]byte(nil), uint8(0))
	f.Add(encode(f, trailer("")), uint8(0))
	f.Add(encode(f, data("one"), data(""), data("two"), trailer("onetwo")), uint8(1))
	f.Add(encode(f, data("one"), trailer("two")), uint8(2))
	f.Add(encode(f, data("one")), uint8(3))
	f.Add(encode(f, data("one"), abort), uint8(4))
	f.Add(encode(f, trailer(""), data("late")), uint8(5))
	f.Add([]byte{2, 0xff, 0xff}, uint8(6))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		var sent []byte
		whole := false
		rest := in
		reader := newChunkReader(func() (frame, error) {
			n, used := binary.Uvarint(rest)
			if used <= 0 || n > uint64(len(rest)-used) {
				return frame{}, io.EOF
			}
			var m pb.StreamInRequest
			err := proto.Unmarshal(rest[used:used+int(n)], &m)
			rest = rest[used+int(n):]
			if err != nil {
				return frame{}, err
			}
			if tr := m.GetTrailer(); tr != nil {
				whole = tr.Bytes == int64(len(sent)) && tr.GetCrc32C() == crc32.Checksum(sent, crc32.MakeTable(crc32.Castagnoli))
			}
			sent = append(sent, m.GetData()...)
			return frameIn(&m), nil
		})
		var got bytes.Buffer
		buf := make([]byte, int(size)+1)
		var err error
		for err == nil {
			var n int
			n, err = reader.Read(buf)
			got.Write(buf[:n])
		}
		if (err == io.EOF) != whole {
			t.Fatalf("ended with %v; whole is %v", err, whole)
		}
		if !bytes.HasPrefix(sent, got.Bytes()) || whole && got.Len() != len(sent) {
			t.Fatalf("read %q of %q", got.Bytes(), sent)
		}
		if _, again := reader.Read(buf); again != err {
			t.Fatalf("ended with %v, then with %v", err, again)
		}
	})
}

func TestChunkWriterTellsItsReceiversEnd(t *testing.T) {
	gone := errors.New("gone")
	w := newChunkWriter(&buffers{}, func(b mem.Buffer) error { b.Free(); return gone })
	defer w.abandon(nil)
	var err error
	for err == nil {
		_, err = w.Write(make([]byte, chunkSize))
	}
	if err != gone {
		t.Errorf("got %v", err)
	}
	if _, err := w.finish(); err != gone {
		t.Errorf("finish: %v", err)
	}
}

func TestChunkWriterAfterItsEnd(t *testing.T) {
	w := newChunkWriter(&buffers{}, func(b mem.Buffer) error { b.Free(); return nil })
	if _, err := w.finish(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("late")); err == nil {
		t.Error("a write after the end succeeded")
	}
}

// A call may learn of its receiver's end while its source is finishing: either comes first, and neither sees the other half done.
func TestChunkWriterFailsWhileItFinishes(t *testing.T) {
	gone := errors.New("gone")
	for range 500 {
		w := newChunkWriter(&buffers{}, func(b mem.Buffer) error { b.Free(); return nil })
		if _, err := w.Write([]byte("some")); err != nil {
			t.Fatal(err)
		}
		failed := make(chan struct{})
		go func() {
			defer close(failed)
			w.fail(gone)
		}()
		trailer, err := w.finish()
		<-failed
		if err != nil && !errors.Is(err, gone) || err == nil && trailer.Bytes != 4 {
			t.Fatalf("%v, %v", trailer, err)
		}
	}
}

// TestChunkReaderOutlivesItsCall: a Read may still be blocked when the call ends, and its stream breaks off after that.
func TestChunkReaderOutlivesItsCall(t *testing.T) {
	broken := make(chan struct{})
	r := newChunkReader(func() (frame, error) {
		<-broken
		return frame{}, io.ErrUnexpectedEOF
	})
	read := make(chan error, 1)
	go func() {
		_, err := r.Read(make([]byte, 1))
		read <- err
	}()
	close(broken)
	if err := r.failure(); err != nil && err != io.ErrUnexpectedEOF {
		t.Errorf("the failure is %v", err)
	}
	r.close()
	if err := <-read; err == nil {
		t.Error("a read of nothing succeeded")
	}
}
