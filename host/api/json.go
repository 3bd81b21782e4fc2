package api

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// strictJSON is JSON in which a field that a message does not have is an error. A misspelt one would otherwise be left out in silence, and a container without its ttl, say, never go.
type strictJSON struct{ name string }

// jsonCodecs are put in the place of the library's own, under each name that it knows.
func jsonCodecs() connect.HandlerOption {
	return connect.WithHandlerOptions(connect.WithCodec(strictJSON{"json"}), connect.WithCodec(strictJSON{"json; charset=utf-8"}))
}

func (c strictJSON) Name() string { return c.name }

func (c strictJSON) Marshal(m any) ([]byte, error) {
	p, err := message(m)
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(p)
}

func (c strictJSON) Unmarshal(data []byte, m any) error {
	p, err := message(m)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return errors.New("nothing is no JSON object: send {} where no field is wanted")
	}
	if err := protojson.Unmarshal(data, p); err != nil {
		return fmt.Errorf("JSON of a %s: %w", p.ProtoReflect().Descriptor().Name(), err)
	}
	return nil
}

func message(m any) (proto.Message, error) {
	p, ok := m.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", m)
	}
	return p, nil
}
