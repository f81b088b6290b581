package vmm

import (
	"errors"
	"fmt"
	"os"

	"aether/internal/host/guestmem"
	"aether/internal/host/launch"
	"aether/sandbox"
)

// Most of what a machine has in memory is what its template had. A snapshot has that by one more
// name of the template's file, which never changes, and in its state what is other.

// base is a file on disk with memory that a machine began with. It can be opened again, linked and
// closed if it is none.
type base struct {
	file *os.File
	name string // which may be another file's by now
	sum  uint32
	// loaded is the same in memory, where nobody can change it; nil is that it is not there.
	loaded *os.File
}

// openBase opens that of a snapshot: as a template at hand has it, or after a look at all of it.
func (e *engine) openBase(name string, sum uint32) (*base, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	b := &base{file: file, name: name, sum: sum}
	if b.loaded, err = e.templates.loaded(b); err == nil && b.loaded == nil {
		err = b.check()
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// memory is the file that a machine goes on from.
func (b *base) memory() *os.File {
	if b.loaded != nil {
		return b.loaded
	}
	return b.file
}

// check reads all of it. Errors: Invalid.
func (b *base) check() error {
	got, err := guestmem.Sum(b.file)
	if err == nil && got != b.sum {
		err = &sandbox.Error{Class: sandbox.Invalid, Field: "snapshot", Reason: fmt.Sprintf("its memory in %q is damaged, or another's", baseFile)}
	}
	return err
}

// again opens it once more, for one user of it.
func (b *base) again() (*base, error) {
	if b == nil {
		return nil, nil
	}
	file, err := launch.Reopen(b.file)
	if err != nil {
		return nil, err
	}
	return &base{file: file, name: b.name, sum: b.sum}, nil
}

// link gives the file one more name, if it can have one.
func (b *base) link(name string) (bool, error) {
	if b == nil {
		return false, nil
	}
	return link(b.name, b.file, name)
}

func (b *base) close() {
	if b != nil {
		b.file.Close()
		if b.loaded != nil {
			b.loaded.Close()
		}
	}
}

// sumOf is the checksum of the memory in a file.
func sumOf(name string) (uint32, error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	sum, err := guestmem.Sum(file)
	return sum, errors.Join(err, file.Close())
}
