package guestmem

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Data finds what a file has, from its beginning to its end. The kernel walks over all of a run
// to find where that ends, so each is asked for once.
type Data struct {
	file       *os.File
	start, end int64 // of the run that was found last
}

// NewData is for a file of which nobody else uses the descriptor's offset.
func NewData(file *os.File) *Data { return &Data{file: file} }

// From is the first run that is not over at an offset: its rest from there, if the offset is
// within it. After the last it is beyond every file. No offset is below the one before.
func (d *Data) From(offset int64) (start, end int64, err error) {
	if offset >= d.end {
		if err := d.seek(offset); err != nil {
			return 0, 0, err
		}
	}
	return max(offset, d.start), d.end, nil
}

func (d *Data) seek(offset int64) (err error) {
	fd := int(d.file.Fd())
	d.start, err = unix.Seek(fd, offset, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		d.start, d.end = math.MaxInt64, math.MaxInt64
		return nil
	}
	if err == nil {
		d.end, err = unix.Seek(fd, d.start, unix.SEEK_HOLE)
	}
	return err
}
