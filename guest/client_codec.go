package guest

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxMessageParts bounds the messages, and the values of lists and maps, that one message
// holds. Two bytes are enough for an empty one, which then takes hundreds in memory.
// The longest listing that a service gives has about half as many.
const maxMessageParts = 512 << 10

// boundedCodec decodes what a service says that may be hostile.
type boundedCodec struct{}

// Name implements connect.Codec: it is that of the usual one, in whose place this is.
func (boundedCodec) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (boundedCodec) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("guest: %T is no message", message)
	}
	return proto.Marshal(m)
}

// Unmarshal implements connect.Codec.
func (boundedCodec) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("guest: %T is no message", message)
	}
	left := maxMessageParts
	if err := countParts(data, m.ProtoReflect().Descriptor(), &left); err != nil {
		return err
	}
	return proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m)
}

// countParts takes the parts of a message from what is left. The depth is that of the
// wire's definition, which has no message within itself.
func countParts(data []byte, of protoreflect.MessageDescriptor, left *int) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return protowire.ParseError(n)
		}
		if err := countPart(data[:n], kind, of.Fields().ByNumber(number), left); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func countPart(value []byte, kind protowire.Type, field protoreflect.FieldDescriptor, left *int) error {
	if field == nil || field.Message() == nil && !field.IsList() {
		return nil
	}
	if *left--; *left < 0 {
		return fmt.Errorf("a message of the guest service has over %d parts", maxMessageParts)
	}
	if field.Message() == nil || kind != protowire.BytesType {
		return nil
	}
	inner, n := protowire.ConsumeBytes(value)
	if n < 0 {
		return protowire.ParseError(n)
	}
	return countParts(inner, field.Message(), left)
}
