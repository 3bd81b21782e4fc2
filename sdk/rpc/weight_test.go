package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// TestWeight: a message that would come to far more in memory than on the wire is refused before it is decoded, and whatever a plugin can have to tell is not.
func TestWeight(t *testing.T) {
	const most = 4 << 20
	message := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	list := &pb.ListVolumesResponse{}
	for i := 0; proto.Size(list) < most-1000; i++ {
		for range 100 {
			list.Volumes = append(list.Volumes, &pb.VolumeInfo{Id: fmt.Sprintf("v%010d", i), Token: "0123456789abcdef0123456789abcdef", Parent: "v0000000000",
				Labels: map[string]string{"slipway.installation": "01m8czzadz6jy5t2m2fwhadpwv", "slipway.kind": "output", "team": "main"}})
		}
	}
	list.Volumes = list.Volumes[:len(list.Volumes)-100]
	deep := []byte{}
	for range 200 { // a block in a block
		deep = append(append([]byte{8<<3 | 2}, byteLen(len(deep))...), deep...)
	}
	for name, c := range map[string]struct {
		bytes []byte
		into  proto.Message
		taken bool
	}{
		"a list that fills a message":                             {message(list), &pb.ListVolumesResponse{}, true},
		"a record of as much data":                                {message(&pb.FollowProcessResponse{Frame: &pb.FollowProcessResponse_Records{Records: &pb.Records{Records: []*pb.Record{{Data: make([]byte, most-100)}}}}}), &pb.FollowProcessResponse{}, true},
		"a start with as many empty arguments as a message takes": {bytes.Repeat([]byte{6<<3 | 2, 0}, most/2), &pb.StartProcessRequest{}, true},
		"empty records":                                           {wrapped(2, bytes.Repeat([]byte{1<<3 | 2, 0}, most/2-10)), &pb.FollowProcessResponse{}, false},
		"empty settings":                                          {wrapped(5, bytes.Repeat([]byte{1<<3 | 2, 0}, most/2-10)), &pb.InfoResponse{}, false},
		"empty features":                                          {bytes.Repeat([]byte{5<<3 | 2, 0}, most/2), &pb.StatusResponse{}, false},
		"settings in settings":                                    {wrapped(5, wrapped(1, append(deep, make([]byte, 0)...))), &pb.InfoResponse{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "settings in settings" { // is not large: it is weighed by itself
				if err := weigh(c.bytes, c.into.ProtoReflect().Descriptor()); !errors.Is(err, sdk.Internal) {
					t.Errorf("weighed: %v", err)
				}
				return
			}
			err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(c.bytes)}, c.into)
			if c.taken && err != nil || !c.taken && !errors.Is(err, sdk.Internal) {
				t.Errorf("a message of %d bytes: %v", len(c.bytes), err)
			}
		})
	}
}

// wrapped is a message whose one field is another.
func wrapped(field byte, m []byte) []byte {
	return append(append([]byte{field<<3 | 2}, byteLen(len(m))...), m...)
}

func byteLen(n int) []byte {
	var b []byte
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}
