package spawn

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
)

const (
	elfHeaderSize  = 64
	progHeaderSize = 56
	loadAddress    = 0x400000
)

// Pause is the program that PID 1 of a process-level sandbox executes: a static
// ELF of under 200 bytes that sleeps for ever, in a sealed memory file that can
// be executed but not read, so that nobody inside can trace it. With SIGCHLD
// ignored the kernel reaps its orphans. It costs a few KiB.
var Pause = sync.OnceValues(func() (*os.File, error) { return pauseFile("aether-init", 0o111) })

func pauseFile(name string, mode os.FileMode) (*os.File, error) {
	file, err := ExecutableFile(name)
	if err != nil {
		return nil, err
	}
	if err := fillPause(file, mode); err != nil {
		file.Close()
		return nil, fmt.Errorf("spawn: make the program %s: %w", name, err)
	}
	return file, nil
}

func fillPause(file *os.File, mode os.FileMode) error {
	if _, err := file.Write(pauseELF()); err != nil {
		return err
	}
	if err := file.Chmod(mode); err != nil {
		return err
	}
	return Seal(context.Background(), file)
}

// pauseELF is an ELF header, one program header that maps the whole file
// readable and executable, and the code.
func pauseELF() []byte {
	size := elfHeaderSize + progHeaderSize + len(pauseCode)
	le := binary.LittleEndian
	out := make([]byte, 0, size)
	out = append(out, 0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	out = le.AppendUint16(out, 2) // executable
	out = le.AppendUint16(out, pauseMachine)
	out = le.AppendUint32(out, 1)
	out = le.AppendUint64(out, loadAddress+elfHeaderSize+progHeaderSize) // entry
	out = le.AppendUint64(out, elfHeaderSize)                            // program headers
	out = le.AppendUint64(out, 0)                                        // no sections
	out = le.AppendUint32(out, 0)
	for _, half := range []uint16{elfHeaderSize, progHeaderSize, 1, 0, 0, 0} {
		out = le.AppendUint16(out, half)
	}
	out = le.AppendUint32(out, 1) // PT_LOAD
	out = le.AppendUint32(out, 5) // read, execute
	for _, word := range []uint64{0, loadAddress, loadAddress, uint64(size), uint64(size), 0x1000} {
		out = le.AppendUint64(out, word)
	}
	return append(out, pauseCode...)
}
