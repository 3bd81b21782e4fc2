package rpc

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/slipway-run/slipway/sdk"
)

// What the parts of a message come to in memory, about, beside their own bytes: two bytes on the wire may be an empty message.
const (
	messageWeight = 256
	entryWeight   = 64 // of a map
	textWeight    = 24

	maxWeight = 24 << 20 // of one message; a list of as many bytes as a message may have, with labels, comes to two thirds of that
	maxNested = 64       // messages in messages
)

// weigh holds what a message would come to against the bound, before it is decoded: what is damaged is for the decoder to find.
func weigh(b []byte, d protoreflect.MessageDescriptor) error {
	left := maxWeight
	return weighInto(b, d, maxNested, &left)
}

func weighInto(b []byte, d protoreflect.MessageDescriptor, nested int, left *int) error {
	if nested == 0 {
		return sdk.NewInternal(nil, "a message %s holds messages in messages, more than %d deep", d.Name(), maxNested)
	}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return nil
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		f := d.Fields().ByNumber(number)
		switch {
		case f == nil: // of a newer peer: it is kept as bytes
		case f.IsMap():
			*left -= entryWeight
		case f.Message() != nil:
			*left -= messageWeight
		default:
			*left -= textWeight
		}
		if *left < 0 {
			return sdk.NewInternal(nil, "a message %s has more parts than there can be", d.Name())
		}
		if f != nil && f.Message() != nil {
			if err := weighInto(v, f.Message(), nested-1, left); err != nil {
				return err
			}
		}
	}
	return nil
}
