package inroot

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// record is one event as the kernel writes it.
type record struct {
	wd           int32
	mask, cookie uint32
	name         string
}

// nextRecord reads the first record of data. The names in it are the sandbox's.
func nextRecord(data []byte) (r record, rest []byte, ok bool) {
	if len(data) < unix.SizeofInotifyEvent {
		return record{}, nil, false
	}
	size := binary.NativeEndian.Uint32(data[12:])
	if uint64(len(data)) < unix.SizeofInotifyEvent+uint64(size) {
		return record{}, nil, false
	}
	name := data[unix.SizeofInotifyEvent:][:size]
	name, _, _ = bytes.Cut(name, []byte{0})
	return record{
		wd:     int32(binary.NativeEndian.Uint32(data)),
		mask:   binary.NativeEndian.Uint32(data[4:]),
		cookie: binary.NativeEndian.Uint32(data[8:]),
		name:   string(name),
	}, data[unix.SizeofInotifyEvent+int(size):], true
}
