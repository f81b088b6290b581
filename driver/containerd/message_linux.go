package containerd

import "google.golang.org/protobuf/encoding/protowire"

// field is the number of a field, as containerd's definitions have it.
type field = protowire.Number

// message is a protocol buffer. Those of containerd are written field by field and
// only what is used of them is read: the generated types of its API would bring
// another client and server of gRPC into this program.
type message []byte

func (m message) text(f field, value string) message {
	return protowire.AppendString(protowire.AppendTag(m, f, protowire.BytesType), value)
}

func (m message) texts(f field, values []string) message {
	for _, value := range values {
		m = m.text(f, value)
	}
	return m
}

func (m message) inner(f field, value message) message {
	return protowire.AppendBytes(protowire.AppendTag(m, f, protowire.BytesType), value)
}

func (m message) number(f field, value uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, f, protowire.VarintType), value)
}

// labels is a map, which is a list of pairs.
func (m message) labels(f field, pairs map[string]string) message {
	for key, value := range pairs {
		m = m.inner(f, message{}.text(1, key).text(2, value))
	}
	return m
}

// fields are what a message has.
type fields struct {
	numbers map[field]uint64
	parts   map[field][]message
}

// read takes a message apart, one level deep. It may come from a shim.
func (m message) read() (fields, error) {
	f := fields{map[field]uint64{}, map[field][]message{}}
	for len(m) > 0 {
		at, kind, n := protowire.ConsumeTag(m)
		if n < 0 {
			return f, protowire.ParseError(n)
		}
		m = m[n:]
		switch kind {
		case protowire.VarintType:
			f.numbers[at], n = protowire.ConsumeVarint(m)
		case protowire.BytesType:
			var part []byte
			part, n = protowire.ConsumeBytes(m)
			f.parts[at] = append(f.parts[at], part)
		default:
			n = protowire.ConsumeFieldValue(at, kind, m)
		}
		if n < 0 {
			return f, protowire.ParseError(n)
		}
		m = m[n:]
	}
	return f, nil
}

// text is the last value of a field, as the format wants it, or empty.
func (f fields) text(at field) string {
	if list := f.parts[at]; len(list) > 0 {
		return string(list[len(list)-1])
	}
	return ""
}

// has says that there is a message in a field.
func (f fields) has(at field) bool { return len(f.parts[at]) > 0 }

// inner takes the message in a field apart; one that is not there has no fields.
func (f fields) inner(at field) (fields, error) { return message(f.text(at)).read() }

// labels is a map.
func (f fields) labels(at field) (map[string]string, error) {
	pairs := map[string]string{}
	for _, pair := range f.parts[at] {
		p, err := pair.read()
		if err != nil {
			return nil, err
		}
		pairs[p.text(1)] = p.text(2)
	}
	return pairs, nil
}
