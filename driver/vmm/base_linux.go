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
}

// openBase gives a machine that of its snapshot: with the memory of a template at hand that it is
// of, or after a look at all of it.
func (m *machine) openBase(name string, sum uint32) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	m.base = &base{file: file, name: name, sum: sum}
	loaded, err := m.engine.templates.loaded(m.base)
	if loaded != nil {
		m.memory = []*os.File{loaded}
	}
	if err != nil || loaded != nil {
		return err
	}
	return m.base.check()
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
