package guestmem

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Layers is memory that machines can share: each page is of one of several files that
// nobody changes, and what the machine writes is its own. Freeze puts what it has written
// into one more file, so that others can go on from there.
type Layers struct {
	*Mapping
	files  []*os.File
	offset int64    // of the memory in the last of the files, while it is borrowed
	lent   int      // how many files, the last, are not to be handed on, while it is borrowed
	runs   []Extent // all of the memory, one after another
	state  layersState
	// changed are pages that were written since the last Freeze.
	changed Pages
}

// layersState is how the memory is mapped.
type layersState int

const (
	// whole: there is one file, of this machine alone, which changes with the memory.
	whole layersState = iota
	// borrowed: nobody changes the files, of which some are not to be handed on.
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
	// maxFiles is how many files there are at most: one for all, and those of forks. When
	// there would be more, those of forks become one, if Flatten has not done so before.
	maxFiles = 16
	// maxExtents keeps a process far below the kernel's limit of mappings.
	maxExtents = 16 << 10
	// leastGap is how many pages that were not written are put into a layer with their
	// neighbours: a mapping costs more than they do. It grows until there are goodExtents, as
	// long as no more than a part of what was written comes with it, or sparePages.
	leastGap    = 3
	goodExtents = 64
	sparePages  = 64
)

// ErrLost is that memory could not be mapped again. The machine cannot go on.
var ErrLost = errors.New("guestmem: memory of the machine is lost")

// NewLayers is memory that a file holds, which is this machine's alone.
func NewLayers(file *os.File, size int64) (*Layers, error) {
	return newLayers([]*os.File{file}, []Extent{{0, size, 0}}, 0, size, whole, 0)
}

// Borrow is memory that a file holds from an offset on and that changes in this mapping
// only. The file is nobody's to hand on.
func Borrow(file *os.File, offset, size int64) (*Layers, error) {
	return newLayers([]*os.File{file}, []Extent{{0, size, 0}}, offset, size, borrowed, 1)
}

// BorrowOver is Borrow of what a file, the second that extents tell of, holds over another, which
// is to be handed on or is lent as well.
func BorrowOver(base, file *os.File, lent bool, extents []Extent, offset, size int64) (*Layers, error) {
	count := 1
	if lent {
		count = 2
	}
	return newLayers([]*os.File{base, file}, extents, offset, size, borrowed, count)
}

// Join maps what Freeze has made of a machine of a size. The files become the memory's.
func Join(files []*os.File, extents []Extent, size int64) (*Layers, error) {
	return newLayers(files, extents, 0, size, layered, 0)
}

func newLayers(files []*os.File, extents []Extent, offset, size int64, state layersState, lent int) (*Layers, error) {
	if len(files) == 0 || len(files) > maxFiles || len(extents) > maxExtents || size <= 0 || size%pageSize != 0 {
		return nil, fmt.Errorf("guestmem: %d files and %d runs for %d bytes", len(files), len(extents), size)
	}
	l := &Layers{files: files, offset: offset, lent: lent, runs: slices.Clone(extents), state: state}
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
	for n, file := range files {
		if info, err := file.Stat(); err != nil || info.Size() != l.offsetIn(n)+size {
			return nil, errors.Join(errors.New("guestmem: a file is not as long as the memory"), err)
		}
	}
	l.changed = NewPages(size) // which may be anything before
	var err error
	if l.Mapping, err = Map(files[0], l.offsetIn(0), size, state != whole); err != nil {
		return nil, err
	}
	for _, e := range extents {
		if e.File != 0 {
			if err := l.place(e); err != nil {
				return nil, errors.Join(err, l.Close())
			}
		}
	}
	return l, nil
}

// offsetIn is where the memory begins in one of the files.
func (l *Layers) offsetIn(file int) int64 {
	if file == len(l.files)-1 {
		return l.offset
	}
	return 0
}

// place maps a run from its file.
func (l *Layers) place(e Extent) error {
	if _, err := mmap(l.at+uintptr(e.Start), uintptr(e.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED|unix.MAP_NORESERVE, l.files[e.File].Fd(), l.offsetIn(int(e.File))+e.Start); err != nil {
		return errors.Join(ErrLost, err)
	}
	return nil
}

// Files are those that Extents tells of, but for borrowed ones before the first Freeze.
func (l *Layers) Files() []*os.File { return l.files[:len(l.files)-l.lent] }

// Extents says where all of the memory is, since Freeze.
func (l *Layers) Extents() []Extent { return slices.Clone(l.runs) }

// Freeze has the files hold all of the memory as it is, while nobody writes to it. What is
// written afterwards is the machine's own. changed are the pages that were written since the last
// call, or since the memory was mapped, which need not be known of memory in a file of its own;
// pages is the pagemap of this process; layer is an empty file as long as the memory, which
// becomes the memory's. kept is which of Files, with the layer after them, are left. Errors: ErrLost; after
// another one the memory is as it was.
//
// What is written to the layer stays the machine's own as well: mapping the layer in its place
// would take longer than all else, and each of these pages would be copied when it is written to
// again.
func (l *Layers) Freeze(changed Pages, pages io.ReaderAt, layer *os.File) (kept []int, err error) {
	if l.state == whole {
		if err := l.Replace(l.files[0], 0, true); err != nil {
			return nil, errors.Join(ErrLost, err)
		}
		l.state = layered
		return []int{0}, layer.Close()
	}
	l.changed.Add(changed)
	number := uint32(len(l.files))
	written := l.changed.runs(number)
	if len(l.files) >= maxFiles || l.lent > 0 { // all but what is in a file that stays
		written = above(l.runs, written, number)
	}
	written = join(l.runs, written)
	filled := written
	if l.lent == len(l.files) {
		written = []Extent{{0, int64(l.size), number}}
		if filled, err = l.Filled(pages); err != nil {
			return nil, err
		}
	}
	for _, e := range filled {
		if err := l.keep(layer, e); err != nil {
			return nil, err
		}
	}
	l.runs = overlay(l.runs, written)
	for n := range l.runs { // of which none is of a file that was lent
		if l.runs[n].File == number {
			l.runs[n].File -= uint32(l.lent)
		}
	}
	for _, file := range l.files[len(l.files)-l.lent:] {
		_ = file.Close() // nothing was written by this descriptor
	}
	l.files = append(l.Files(), layer)
	l.offset, l.lent, l.state = 0, 0, layered
	kept = l.forget()
	clear(l.changed)
	return kept, nil
}

// Flatten has one file hold what is in all files but the first, of memory that was frozen. The
// memory may change meanwhile. layer and kept are as for Freeze; after an error the memory is as
// it was, and the layer is the caller's.
func (l *Layers) Flatten(layer *os.File) (kept []int, err error) {
	if l.state != layered {
		return nil, errors.New("guestmem: memory that was not frozen has no layers")
	}
	number := uint32(len(l.files))
	buffer := make([]byte, len(zero))
	for _, e := range l.runs {
		if e.File == 0 {
			continue
		}
		for at := e.Start; at < e.Start+e.Size; at += int64(len(buffer)) {
			part := buffer[:min(int64(len(buffer)), e.Start+e.Size-at)]
			if _, err := l.files[e.File].ReadAt(part, at); err != nil {
				return nil, err
			}
			if err := writeSome(layer, part, at); err != nil {
				return nil, err
			}
		}
	}
	l.files = append(l.files, layer)
	l.runs = overlay(l.runs, above(l.runs, nil, number))
	return l.forget(), nil
}

// zero is what need not be kept.
var zero [64 << 10]byte

// keep writes pages to a layer, but for those that are zero.
func (l *Layers) keep(layer *os.File, e Extent) error {
	const step = int64(len(zero))
	for at := e.Start; at < e.Start+e.Size; at += step {
		if err := writeSome(layer, l.bytes[at:min(at+step, e.Start+e.Size)], at); err != nil {
			return err
		}
	}
	return nil
}

func writeSome(layer *os.File, part []byte, at int64) error {
	if bytes.Equal(part, zero[:len(part)]) {
		return nil
	}
	_, err := layer.WriteAt(part, at)
	return err
}

// forget closes files of which no page is left, and says which are kept.
func (l *Layers) forget() (kept []int) {
	var number [maxFiles + 1]uint32
	var has [maxFiles + 1]bool
	for _, e := range l.runs {
		has[e.File] = true
	}
	var files []*os.File
	for n, file := range l.files {
		if !has[n] {
			_ = file.Close() // nothing was written by this descriptor that anybody looks for
			continue
		}
		number[n] = uint32(len(files))
		files, kept = append(files, file), append(kept, n)
	}
	l.files = files
	for n := range l.runs {
		l.runs[n].File = number[l.runs[n].File]
	}
	return kept
}

// written are the runs of pages that are the machine's own: those that are there and of no
// file. They are to be in the next file.
func (l *Layers) written(pages io.ReaderAt) (list []Extent, err error) {
	const entry, present, swapped, ofFile = 8, 1 << 63, 1 << 62, 1 << 61
	buffer := make([]byte, 64<<10)
	next := Extent{File: uint32(len(l.files))} // which goes on at at, or is empty
	for at := int64(0); at < int64(l.size); {
		part := buffer[:min(int64(len(buffer)), (int64(l.size)-at)/pageSize*entry)]
		if _, err := pages.ReadAt(part, int64(l.at/pageSize)*entry+at/pageSize*entry); err != nil {
			return nil, fmt.Errorf("guestmem: read which pages were written: %w", err)
		}
		for ; len(part) >= entry; part, at = part[entry:], at+pageSize {
			e := binary.NativeEndian.Uint64(part)
			switch own := e&(present|swapped) != 0 && e&ofFile == 0; {
			case own && next.Size == 0:
				next.Start, next.Size = at, pageSize
			case own:
				next.Size += pageSize
			case next.Size > 0:
				list = append(list, next)
				next.Size = 0
			}
		}
	}
	if next.Size > 0 {
		list = append(list, next)
	}
	return list, nil
}

// Filled are the runs of memory that may hold something, one after another: what the files
// have, and the machine's own. Whoever read the rest would have the kernel make pages of it,
// which are then shared by all machines over the same file. pages is the pagemap of this
// process.
func (l *Layers) Filled(pages io.ReaderAt) (list []Extent, err error) {
	data := make([]*Data, len(l.files))
	for n, file := range l.files {
		data[n] = NewData(file)
	}
	for _, e := range l.runs {
		offset := l.offsetIn(int(e.File))
		for at, end := e.Start, e.Start+e.Size; at < end; {
			first, last, err := data[e.File].From(offset + at)
			if err != nil {
				return nil, fmt.Errorf("guestmem: look for what a file has: %w", err)
			}
			if first, at = first-offset, min(last-offset, end); first < end {
				list = append(list, Extent{Start: first, Size: at - first})
			}
		}
	}
	if l.state == whole {
		return list, nil
	}
	written, err := l.written(pages)
	if err != nil {
		return nil, err
	}
	return union(list, written), nil
}

// Beyond are the runs of memory that may be other than in the first of the files, as of a second,
// and all is what there is of the two then. pages is the pagemap of this process.
func (l *Layers) Beyond(pages io.ReaderAt) (beyond, all []Extent, err error) {
	if l.state == whole {
		return nil, nil, errors.New("guestmem: nothing is in a file that does not change")
	}
	written, err := l.written(pages)
	if err != nil {
		return nil, nil, err
	}
	first := []Extent{{0, int64(l.size), 0}}
	beyond = join(first, above(l.runs, written, 1))
	return beyond, overlay(first, beyond), nil
}

// union is what is in one of two lists of runs, or in both.
func union(a, b []Extent) (list []Extent) {
	both := slices.Concat(a, b)
	slices.SortFunc(both, func(a, b Extent) int { return cmp.Compare(a.Start, b.Start) })
	for _, e := range both {
		if n := len(list) - 1; n >= 0 && e.Start <= list[n].Start+list[n].Size {
			list[n].Size = max(list[n].Size, e.Start+e.Size-list[n].Start)
			continue
		}
		list = append(list, Extent{Start: e.Start, Size: e.Size})
	}
	return list
}

// above is what is written, and all that is not in the first of the files.
func above(runs, written []Extent, file uint32) (list []Extent) {
	for _, e := range overlay(runs, written) {
		if e.File == 0 {
			continue
		}
		e.File = file
		list = addRun(list, e)
	}
	return list
}

// addRun appends a run, which may go on where the last ended.
func addRun(list []Extent, e Extent) []Extent {
	if n := len(list) - 1; n >= 0 && list[n].File == e.File && list[n].Start+list[n].Size == e.Start {
		list[n].Size += e.Size
		return list
	}
	return append(list, e)
}

// overlay is what there is when runs are over all of the memory.
func overlay(runs, over []Extent) (list []Extent) {
	for _, e := range runs {
		for e.Size > 0 {
			for len(over) > 0 && over[0].Start+over[0].Size <= e.Start {
				over = over[1:]
			}
			part := e
			switch {
			case len(over) == 0 || over[0].Start >= e.Start+e.Size: // nothing is over it
			case over[0].Start > e.Start:
				part.Size = over[0].Start - e.Start
			default:
				part.Size = min(e.Size, over[0].Start+over[0].Size-e.Start)
				part.File = over[0].File
			}
			list = addRun(list, part)
			e.Start, e.Size = e.Start+part.Size, e.Size-part.Size
		}
	}
	return list
}

// join adds pages between runs until there are few enough mappings.
func join(runs, written []Extent) []Extent {
	size := total(written)
	joined := joinGaps(written, leastGap)
	for gap := int64(2 * leastGap); ; gap *= 2 {
		count := len(overlay(runs, joined))
		if count <= goodExtents || len(joined) < 2 {
			return joined
		}
		more := joinGaps(written, gap)
		if count <= maxExtents && total(more)-size > max(size/4, sparePages*pageSize) {
			return joined
		}
		joined = more
	}
}

func total(list []Extent) (size int64) {
	for _, e := range list {
		size += e.Size
	}
	return size
}

// joinGaps joins runs with no more than so many pages between them.
func joinGaps(written []Extent, gap int64) (list []Extent) {
	for _, e := range written {
		if n := len(list) - 1; n >= 0 && e.Start-list[n].Start-list[n].Size <= gap*pageSize {
			list[n].Size = e.Start + e.Size - list[n].Start
			continue
		}
		list = append(list, e)
	}
	return list
}
