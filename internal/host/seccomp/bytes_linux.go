package seccomp

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Bytes is the filter as programs read it that install one from a descriptor.
func Bytes() ([]byte, error) {
	program, err := Filter()
	if err != nil {
		return nil, err
	}
	return asBytes(program)
}

func asBytes(program []unix.SockFilter) ([]byte, error) {
	var text bytes.Buffer
	if err := binary.Write(&text, binary.NativeEndian, program); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}
