package guestmem

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Layers is memory that machines can share: each page is of one of several files that
// nobody changes, and what the machine writes is its own. Freeze puts what it has written
// into one more file, so that others can go on from there.
type Layers struct {
	*Mapping
	files []*os.File
	owner []uint16 // of each page, which of the files
	state layersState
}

// layersState is how the memory is mapped.
type layersState int

const (
	// whole: there is one file, of this machine alone, which changes with the memory.
	whole layersState = iota
	// borrowed: there is one file that is not to be handed on.
	borrowed
	// layered: nobody changes the files.
	layered
)

// Extent is a run of memory, and the file that holds it at the same offset.
type Extent struct {
	Start, Size int64
	File        uint32
}

// ExtentSize is of an Extent as it is kept.
const ExtentSize = 20

// Append appends it as it is kept.
func (e Extent) Append(to []byte) []byte {
	to = binary.LittleEndian.AppendUint64(to, uint64(e.Start))
	to = binary.LittleEndian.AppendUint64(to, uint64(e.Size))
	return binary.LittleEndian.AppendUint32(to, e.File)
}

// Take reads it from bytes that have it, and gives the rest of them.
func (e *Extent) Take(from []byte) []byte {
	e.Start, e.Size = int64(binary.LittleEndian.Uint64(from)), int64(binary.LittleEndian.Uint64(from[8:]))
	e.File = binary.LittleEndian.Uint32(from[16:])
	return from[ExtentSize:]
}

const (
	pageSize = 4096
	// maxFiles is how many files there are at most: one for all, and those of forks. When
	// there would be more, those of forks become one.
	maxFiles = 16
	// maxExtents keeps a process far below the kernel's limit of mappings.
	maxExtents = 16 << 10
	// leastGap is how many pages that were not written are put into a layer with their
	// neighbours: a mapping costs more than they do.
	leastGap = 3
)

// ErrLost is that memory could not be mapped again. The machine cannot go on.
var ErrLost = errors.New("guestmem: memory of the machine is lost")

// NewLayers is memory that a file holds, which is this machine's alone.
func NewLayers(file *os.File, size int64) (*Layers, error) {
	return newLayers(file, 0, size, whole)
}

// Borrow is memory that a file holds from an offset on and that changes in this mapping
// only. The file is nobody's to hand on.
func Borrow(file *os.File, offset, size int64) (*Layers, error) {
	return newLayers(file, offset, size, borrowed)
}

func newLayers(file *os.File, offset, size int64, state layersState) (*Layers, error) {
	if size%pageSize != 0 {
		return nil, fmt.Errorf("guestmem: %d bytes", size)
	}
	m, err := Map(file, offset, size, state != whole)
	if err != nil {
		return nil, err
	}
	return &Layers{Mapping: m, files: []*os.File{file}, owner: make([]uint16, size/pageSize), state: state}, nil
}

// Join maps what Freeze has made of a machine of a size. The files become the memory's.
func Join(files []*os.File, extents []Extent, size int64) (*Layers, error) {
	if len(files) == 0 || len(files) > maxFiles || len(extents) > maxExtents || size <= 0 || size%pageSize != 0 {
		return nil, fmt.Errorf("guestmem: %d files and %d runs for %d bytes", len(files), len(extents), size)
	}
	at := int64(0)
	for _, e := range extents {
		if e.Start != at || e.Size <= 0 || e.Size%pageSize != 0 || e.Size > size-at || e.File >= uint32(len(files)) {
			return nil, fmt.Errorf("guestmem: a run of %d bytes at %d of file %d", e.Size, e.Start, e.File)
		}
		at += e.Size
	}
	if at != size {
		return nil, fmt.Errorf("guestmem: %d bytes of %d", at, size)
	}
	for _, file := range files {
		if info, err := file.Stat(); err != nil || info.Size() != size {
			return nil, errors.Join(errors.New("guestmem: a file is not as long as the memory"), err)
		}
	}
	l, err := newLayers(files[0], 0, size, layered)
	if err != nil {
		return nil, err
	}
	l.files = files
	for _, e := range extents {
		if e.File != 0 {
			if err := l.place(e.File, e.Start/pageSize, (e.Start+e.Size)/pageSize); err != nil {
				return nil, errors.Join(err, l.Close())
			}
		}
	}
	return l, nil
}

// place maps pages from one of the files.
func (l *Layers) place(file uint32, from, to int64) error {
	offset, size := from*pageSize, (to-from)*pageSize
	if _, err := mmap(l.at+uintptr(offset), uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED|unix.MAP_NORESERVE, l.files[file].Fd(), offset); err != nil {
		return errors.Join(ErrLost, err)
	}
	for n := from; n < to; n++ {
		l.owner[n] = uint16(file)
	}
	return nil
}

// Files are those that Extents tells of; none before the first Freeze of borrowed memory.
func (l *Layers) Files() []*os.File {
	if l.state == borrowed {
		return nil
	}
	return l.files
}

// Extents says where all of the memory is, since Freeze.
func (l *Layers) Extents() (list []Extent) {
	for n := 0; n < len(l.owner); {
		end := n + 1
		for end < len(l.owner) && l.owner[end] == l.owner[n] {
			end++
		}
		list = append(list, Extent{int64(n) * pageSize, int64(end-n) * pageSize, uint32(l.owner[n])})
		n = end
	}
	return list
}

// Freeze has the files hold all of the memory as it is, while nobody writes to it. What is
// written afterwards is the machine's own. pages is the pagemap of this process; layer is
// an empty file as long as the memory, which becomes the memory's. kept is which of Files,
// with the layer after them, are left. Errors: ErrLost; after another one the memory is as
// it was.
func (l *Layers) Freeze(pages io.ReaderAt, layer *os.File) (kept []int, err error) {
	if l.state == whole {
		if err := l.Replace(l.files[0], 0, true); err != nil {
			return nil, errors.Join(ErrLost, err)
		}
		l.state = layered
		return []int{0}, layer.Close()
	}
	written, err := l.written(pages)
	if err != nil {
		return nil, err
	}
	if l.state == borrowed || len(l.files) >= maxFiles {
		for n := range written { // all but what is in a file that stays
			written[n] = written[n] || l.state == borrowed || l.owner[n] != 0
		}
	}
	joinRuns(written, l.owner)
	if err := eachRun(written, func(from, to int64) error { return l.keep(layer, from, to) }); err != nil {
		return nil, err
	}
	l.files = append(l.files, layer)
	if err := eachRun(written, func(from, to int64) error { return l.place(uint32(len(l.files)-1), from, to) }); err != nil {
		return nil, err
	}
	kept = l.forget()
	if l.state == borrowed {
		kept = []int{0} // of Files, which were none
	}
	l.state = layered
	return kept, nil
}

// keep writes pages to a layer, but for those that are zero.
func (l *Layers) keep(layer *os.File, from, to int64) error {
	const step = 64 << 10
	var zero [step]byte
	for at := from * pageSize; at < to*pageSize; at += step {
		part := l.bytes[at:min(at+step, to*pageSize)]
		if bytes.Equal(part, zero[:len(part)]) {
			continue
		}
		if _, err := layer.WriteAt(part, at); err != nil {
			return err
		}
	}
	return nil
}

// forget closes files of which no page is left, and says which are kept.
func (l *Layers) forget() (kept []int) {
	var number [maxFiles + 1]uint16
	var has [maxFiles + 1]bool
	for _, file := range l.owner {
		has[file] = true
	}
	var files []*os.File
	for n, file := range l.files {
		if !has[n] {
			_ = file.Close() // nothing was written by this descriptor that anybody looks for
			continue
		}
		number[n] = uint16(len(files))
		files, kept = append(files, file), append(kept, n)
	}
	l.files = files
	for n, file := range l.owner {
		l.owner[n] = number[file]
	}
	return kept
}

// written says which pages are the machine's own: those that are there and of no file.
func (l *Layers) written(pages io.ReaderAt) ([]bool, error) {
	const entry, present, swapped, ofFile = 8, 1 << 63, 1 << 62, 1 << 61
	list := make([]bool, len(l.owner))
	buffer := make([]byte, 64<<10)
	for n := 0; n < len(list); {
		part := buffer[:min(len(buffer), (len(list)-n)*entry)]
		if _, err := pages.ReadAt(part, int64(l.at/pageSize+uintptr(n))*entry); err != nil {
			return nil, fmt.Errorf("guestmem: read which pages were written: %w", err)
		}
		for ; len(part) > 0; part = part[entry:] {
			e := binary.NativeEndian.Uint64(part)
			list[n] = e&(present|swapped) != 0 && e&ofFile == 0
			n++
		}
	}
	return list, nil
}

// joinRuns adds pages between others until there are few enough runs.
func joinRuns(written []bool, owner []uint16) {
	for gap := leastGap; ; gap *= 2 {
		last := -1
		for n, is := range written {
			if !is {
				continue
			}
			if last >= 0 && n-last-1 <= gap {
				for ; last < n; last++ {
					written[last] = true
				}
			}
			last = n
		}
		if countRuns(written, owner) <= maxExtents || gap > len(written) {
			return
		}
	}
}

// countRuns is how many extents there will be.
func countRuns(written []bool, owner []uint16) int {
	const layer = -1
	of := func(n int) int {
		if written[n] {
			return layer
		}
		return int(owner[n])
	}
	count := 1
	for n := 1; n < len(written); n++ {
		if of(n) != of(n-1) {
			count++
		}
	}
	return count
}

func eachRun(written []bool, call func(from, to int64) error) error {
	for n := 0; n < len(written); {
		if !written[n] {
			n++
			continue
		}
		end := n
		for end < len(written) && written[end] {
			end++
		}
		if err := call(int64(n), int64(end)); err != nil {
			return err
		}
		n = end
	}
	return nil
}
