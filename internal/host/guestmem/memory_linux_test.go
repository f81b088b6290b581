package guestmem

import (
	"math"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSlice(t *testing.T) {
	m := New(make([]byte, 4096))
	for _, c := range []struct {
		address, size uint64
		ok            bool
	}{
		{0, 0, true}, {0, 4096, true}, {4095, 1, true}, {4096, 0, true},
		{0, 4097, false}, {4096, 1, false}, {1, 4096, false}, {4097, 0, false},
		{math.MaxUint64, 1, false}, {1, math.MaxUint64, false}, {math.MaxUint64, math.MaxUint64, false}, {HighStart, 1, false},
	} {
		got, ok := m.Slice(c.address, c.size)
		if ok != c.ok || ok && (uint64(len(got)) != c.size || cap(got) != len(got)) {
			t.Errorf("%#x+%#x: %d bytes, %v", c.address, c.size, len(got), ok)
		}
	}
}

// Memory beyond what is below the devices is above 4 GiB, and no slice goes over the gap.
func TestTwoRanges(t *testing.T) {
	m, err := Map(memoryFile(t, LowEnd+8192), 0, LowEnd+8192, false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, c := range []struct {
		address, size uint64
		ok            bool
	}{
		{LowEnd - 8, 8, true}, {HighStart, 8192, true},
		{LowEnd - 8, 9, false}, {LowEnd, 1, false}, {HighStart - 1, 1, false}, {HighStart - 8, 16, false}, {HighStart, 8193, false},
	} {
		if _, ok := m.Slice(c.address, c.size); ok != c.ok {
			t.Errorf("%#x+%#x: %v", c.address, c.size, ok)
		}
	}
	high, _ := m.Slice(HighStart+4, 4)
	Store32(high, 0x01020304)
	if got := m.Bytes()[LowEnd+4]; got != 4 || Load32(high) != 0x01020304 {
		t.Errorf("it is %d at its place in the file", got)
	}
}

// A private mapping in the place of a shared one has what was written, and what is
// written then is its own.
func TestReplace(t *testing.T) {
	const size = 1 << 20
	file := memoryFile(t, size)
	m, err := Map(file, 0, size, false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.Bytes()[5] = 1
	if err := m.Replace(file, 0, true); err != nil {
		t.Fatal(err)
	}
	m.Bytes()[6] = 2
	if got := m.Bytes()[5]; got != 1 {
		t.Errorf("what was written is %d", got)
	}
	var b [2]byte
	if _, err := file.ReadAt(b[:], 5); err != nil || b != [2]byte{1, 0} {
		t.Errorf("the file has %v, %v", b, err)
	}
}

func memoryFile(t *testing.T, size int64) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "test")
	t.Cleanup(func() { file.Close() })
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return file
}
