package blocklayer

import (
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	// Block is what is written at once: less is completed from below.
	Block = 4096
	// MaxLayers is how many there are between the base and the uppermost. When there would be
	// more, they become one.
	MaxLayers = 16
	// maxBlocks bounds a disk, by the map of what its layers hold.
	maxBlocks = 1 << 28
)

// ErrFiles is that files are none of such a disk.
var ErrFiles = errors.New("blocklayer: these are not the files of one disk")

// Disk is a disk of layers. Nobody calls two of its methods at a time.
type Disk struct {
	size   int64
	base   *os.File
	layers []*os.File
	upper  *os.File
	// owner is who holds each block: zero is the base, and one more than the place of a layer.
	owner []uint8
	// wrote says of each block that the uppermost holds it, as its file says at its end.
	wrote []byte
}

const upperOwner = 255

// Length is how long the file of a layer is, of a disk of a size: behind the blocks is a map of
// those that it holds. What is no block of it is a hole, or anything.
func Length(size int64) int64 { return size + mapSize(size) }

func mapSize(size int64) int64 { return (size/Block + 7) / 8 }

// Open makes a disk: of a base, which has its size, layers over it and an uppermost that is
// empty. The files become the disk's.
func Open(base *os.File, layers []*os.File, upper *os.File) (*Disk, error) {
	info, err := base.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size <= 0 || size%Block != 0 || size/Block > maxBlocks || len(layers) > MaxLayers {
		return nil, ErrFiles
	}
	d := &Disk{size: size, base: base, layers: layers, upper: upper, owner: make([]uint8, size/Block), wrote: make([]byte, mapSize(size))}
	for n, layer := range append(layers[:len(layers):len(layers)], upper) {
		if err := d.own(layer, uint8(n+1)); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// own has a layer be the holder of what its map says. A map that is wrong has the disk read
// what nobody wrote there, and nothing else.
func (d *Disk) own(layer *os.File, as uint8) error {
	if info, err := layer.Stat(); err != nil || info.Size() != Length(d.size) {
		return errors.Join(ErrFiles, err)
	}
	held := make([]byte, mapSize(d.size))
	if _, err := layer.ReadAt(held, d.size); err != nil {
		return err
	}
	if layer == d.upper {
		d.wrote, as = held, upperOwner
	}
	for n := range d.owner {
		if held[n/8]&(1<<(n%8)) != 0 {
			d.owner[n] = as
		}
	}
	return nil
}

// Size is that of the disk.
func (d *Disk) Size() int64 { return d.size }

func (d *Disk) file(owner uint8) *os.File {
	switch owner {
	case 0:
		return d.base
	case upperOwner:
		return d.upper
	}
	return d.layers[owner-1]
}

// within says whether a range is on the disk.
func (d *Disk) within(offset int64, length int) bool {
	return offset >= 0 && offset <= d.size && int64(length) <= d.size-offset
}

// ReadAt implements io.ReaderAt: what is held by one file is read at once.
func (d *Disk) ReadAt(to []byte, offset int64) (int, error) {
	if !d.within(offset, len(to)) {
		return 0, io.EOF
	}
	for done := 0; done < len(to); {
		at := offset + int64(done)
		end, owner := at/Block+1, d.owner[at/Block]
		for end < int64(len(d.owner)) && end*Block < offset+int64(len(to)) && d.owner[end] == owner {
			end++
		}
		part := to[done:min(int64(len(to)), end*Block-offset)]
		n, err := d.file(owner).ReadAt(part, at)
		done += n
		if n < len(part) {
			return done, errors.Join(io.ErrUnexpectedEOF, err) // each is as long as the disk
		}
	}
	return len(to), nil
}

// WriteAt implements io.WriterAt, into the uppermost.
func (d *Disk) WriteAt(from []byte, offset int64) (int, error) {
	if !d.within(offset, len(from)) {
		return 0, fmt.Errorf("blocklayer: %d bytes at %d of %d", len(from), offset, d.size)
	}
	if len(from) == 0 {
		return 0, nil
	}
	end := offset + int64(len(from))
	// Blocks of which only a part is written are completed first.
	for _, n := range []int64{offset / Block, (end - 1) / Block} {
		if whole := offset <= n*Block && (n+1)*Block <= end; whole || d.owner[n] == upperOwner {
			continue
		}
		if err := d.raise(n); err != nil {
			return 0, err
		}
	}
	n, err := d.upper.WriteAt(from, offset)
	if err != nil {
		return n, err
	}
	for at := offset / Block; at*Block < end; at++ {
		d.take(at)
	}
	return n, nil
}

// take has the uppermost hold a block.
func (d *Disk) take(n int64) {
	d.owner[n] = upperOwner
	d.wrote[n/8] |= 1 << (n % 8)
}

// raise copies a block to the uppermost.
func (d *Disk) raise(n int64) error {
	var block [Block]byte
	if _, err := d.ReadAt(block[:], n*Block); err != nil {
		return err
	}
	if _, err := d.upper.WriteAt(block[:], n*Block); err != nil {
		return err
	}
	d.take(n)
	return nil
}

// Note has the file of the uppermost say what it holds, so that others can read it.
func (d *Disk) Note() error {
	_, err := d.upper.WriteAt(d.wrote, d.size)
	return err
}

// Prepare does all of Freeze that can fail. When there are too many layers the uppermost takes
// what they hold. After an error the disk is as it was.
func (d *Disk) Prepare(next *os.File) error {
	if info, err := next.Stat(); err != nil || info.Size() != Length(d.size) {
		return errors.Join(ErrFiles, err)
	}
	if len(d.layers) >= MaxLayers {
		for n, owner := range d.owner {
			if owner != 0 && owner != upperOwner {
				if err := d.raise(int64(n)); err != nil {
					return err
				}
			}
		}
	}
	return d.Note()
}

// Freeze, after Prepare and nothing else, has nobody change the uppermost any more: it becomes a
// layer, and the only one if there would be too many. frozen is the same file opened for reading
// only, and next is the uppermost from now on.
func (d *Disk) Freeze(frozen, next *os.File) {
	if len(d.layers) >= MaxLayers {
		for _, layer := range d.layers {
			layer.Close()
		}
		d.layers = nil
	}
	d.upper.Close() // which alone could be written to
	d.layers, d.upper = append(d.layers, frozen), next
	for n, owner := range d.owner {
		if owner == upperOwner {
			d.owner[n] = uint8(len(d.layers))
		}
	}
	d.wrote = make([]byte, mapSize(d.size))
}
