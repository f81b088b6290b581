package lifecycle

import (
	"encoding/binary"
	"slices"
)

// message is the one byte that every measured program writes.
const message = '!'

const (
	elfHeaderSize  = 64
	progHeaderSize = 56
	messageSize    = 4 // padded, so that the code after it is aligned
	loadAddress    = 0x400000
)

// firstProgram writes its byte and exits; stayProgram writes it and sleeps for
// ever. They are as small as programs get, so that what is measured is the
// sandbox: static, without a libc, well under 200 bytes.
func firstProgram() []byte { return program(writeCode, exitCode) }
func stayProgram() []byte  { return program(writeCode, sleepCode) }

// program is an ELF file of one segment: headers, the message, then the code.
func program(code ...[]byte) []byte {
	text := slices.Concat(code...)
	const start = elfHeaderSize + progHeaderSize + messageSize
	size := uint64(start + len(text))
	le := binary.LittleEndian
	out := []byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	out = le.AppendUint16(out, 2) // executable
	out = le.AppendUint16(out, machine)
	out = le.AppendUint32(out, 1)
	out = le.AppendUint64(out, loadAddress+start) // entry
	out = le.AppendUint64(out, elfHeaderSize)     // program headers
	out = le.AppendUint64(out, 0)                 // no sections
	out = le.AppendUint32(out, 0)
	for _, half := range []uint16{elfHeaderSize, progHeaderSize, 1, 0, 0, 0} {
		out = le.AppendUint16(out, half)
	}
	out = le.AppendUint32(out, 1) // load
	out = le.AppendUint32(out, 5) // readable, executable
	for _, word := range []uint64{0, loadAddress, loadAddress, size, size, 0x1000} {
		out = le.AppendUint64(out, word)
	}
	out = append(out, message, 0, 0, 0)
	return append(out, text...)
}
