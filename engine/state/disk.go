package state

import (
	"errors"
	"os"
)

// disk is every call that changes a directory of records, so that tests can end the
// program, or the room on the disk, before and after each.
type disk interface {
	// write writes a whole new file, with sync also to the disk itself.
	write(path string, contents []byte, sync bool) error
	mkdir(path string) error
	rename(from, to string) error
	// sync has the names in a directory on the disk.
	sync(dir string) error
	removeAll(path string) error
	append(file *os.File, lines []byte) error
	syncFile(file *os.File) error
}

type osDisk struct{}

func (osDisk) write(path string, contents []byte, sync bool) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(contents); err != nil || !sync {
		return err
	}
	return file.Sync()
}

func (osDisk) mkdir(path string) error { return os.Mkdir(path, 0o700) }

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) sync(dir string) (err error) {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return file.Sync()
}

func (osDisk) removeAll(path string) error { return os.RemoveAll(path) }

func (osDisk) append(file *os.File, lines []byte) error {
	_, err := file.Write(lines)
	return err
}

func (osDisk) syncFile(file *os.File) error { return file.Sync() }

// watched asks before each call.
type watched struct{ before func() error }

func (w watched) unless(do func() error) error {
	if err := w.before(); err != nil {
		return err
	}
	return do()
}

func (w watched) write(path string, contents []byte, sync bool) error {
	return w.unless(func() error { return osDisk{}.write(path, contents, sync) })
}
func (w watched) mkdir(path string) error {
	return w.unless(func() error { return osDisk{}.mkdir(path) })
}
func (w watched) rename(from, to string) error {
	return w.unless(func() error { return osDisk{}.rename(from, to) })
}
func (w watched) sync(dir string) error {
	return w.unless(func() error { return osDisk{}.sync(dir) })
}
func (w watched) removeAll(path string) error {
	return w.unless(func() error { return osDisk{}.removeAll(path) })
}
func (w watched) append(file *os.File, lines []byte) error {
	return w.unless(func() error { return osDisk{}.append(file, lines) })
}
func (w watched) syncFile(file *os.File) error {
	return w.unless(func() error { return osDisk{}.syncFile(file) })
}
