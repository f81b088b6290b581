package cli

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"aether/sandbox"
)

// maxEntryName bounds the name of an entry, and by it how deep a tree is.
const maxEntryName = 4096

// maxPadding bounds what may follow the end of an archive.
const maxPadding = 1 << 20

// unpacking writes what an archive of a sandbox's making holds below a directory. Nothing
// is written elsewhere, whatever its names and links say: that is held by os.Root. What is
// there already is replaced, and never written through: a link of the archive's could lead
// to another file of the directory.
type unpacking struct {
	root *os.Root
	base string // the name of what was asked for, with which every name begins
	file string // if one file was asked for, its name here
	kept bool   // the directory was there before, and stays as it is

	leftOut int
	// open are the directories above the last entry. Their modes and times are set when
	// the archive has left them, for writing into them would change those.
	open []unpacked
}

// unpacked is a directory of the archive.
type unpacked struct {
	name     string
	mode     fs.FileMode
	modified time.Time
}

// all unpacks an archive to its end.
func (u *unpacking) all(from io.Reader) error {
	archive := tar.NewReader(from)
	for n := 0; ; n++ {
		header, err := archive.Next()
		if err == io.EOF {
			return u.finish(from, n)
		}
		if err != nil {
			return err
		}
		if err := u.one(header, archive); err != nil {
			return &sandbox.Error{Class: sandbox.ClassOf(err), Op: "copy " + header.Name, Err: err}
		}
	}
}

// finish takes what follows the end, as much as a tar may pad.
func (u *unpacking) finish(from io.Reader, entries int) error {
	if err := errors.Join(u.leave(""), drain(from)); err != nil {
		return err
	}
	if entries == 0 {
		return errNothing
	}
	return nil
}

// errNothing is an archive without an entry, as of a tar that failed at once.
var errNothing error = &sandbox.Error{Class: sandbox.Unavailable, Op: "copy", Reason: "the sandbox sent nothing"}

func drain(from io.Reader) error {
	n, err := io.Copy(io.Discard, io.LimitReader(from, maxPadding))
	if err == nil && n == maxPadding {
		return &sandbox.Error{Class: sandbox.Invalid, Reason: "the archive does not end"}
	}
	return err
}

func (u *unpacking) one(header *tar.Header, contents io.Reader) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := u.name(header.Name)
	if err != nil {
		return err
	}
	if sparse(header) {
		return sandbox.Invalidf("size", "a file with holes was not asked for")
	}
	if u.file != "" {
		return u.only(header, name, contents)
	}
	if err := u.leave(name); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return u.directory(header, name)
	case tar.TypeReg:
		return u.regular(header, name, contents)
	case tar.TypeSymlink:
		return u.symlink(header, name)
	case tar.TypeLink:
		return u.hardlink(header, name)
	}
	u.leftOut++
	return nil
}

// sparse says that an entry has holes, by which a few bytes would become any number: a tar
// writes them only if it is asked to.
func sparse(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return header.Typeflag == tar.TypeGNUSparse
}

// name is where an entry goes. Every one is what was asked for, or below it.
func (u *unpacking) name(entry string) (string, error) {
	if len(entry) > maxEntryName || strings.ContainsRune(entry, 0) {
		return "", sandbox.Invalidf("name", "it holds a zero byte or is over %d bytes", maxEntryName)
	}
	name := path.Clean(entry)
	if u.base != "/" && u.base != "." {
		if name == u.base {
			return ".", nil
		}
		below, ok := strings.CutPrefix(name, u.base+"/")
		if !ok {
			return "", sandbox.Invalidf("name", "%.80q was not asked for", entry)
		}
		name = below
	}
	return name, nil
}

// only takes the one file that was asked for, which gets its name when it is whole.
func (u *unpacking) only(header *tar.Header, name string, contents io.Reader) error {
	if name != "." || header.Typeflag != tar.TypeReg {
		return &sandbox.Error{Class: sandbox.Conflict, Reason: "it is no plain file"}
	}
	draft := ".aether-cp-" + strconv.FormatUint(rand.Uint64(), 36)
	if err := u.regular(header, draft, contents); err != nil {
		return err
	}
	return u.root.Rename(draft, u.file)
}

func (u *unpacking) directory(header *tar.Header, name string) error {
	if name != "." {
		if err := u.clear(name, true); err != nil {
			return err
		}
		if err := u.root.MkdirAll(name, 0o700); err != nil {
			return err
		}
		if err := u.root.Chmod(name, 0o700); err != nil { // until the archive has left it
			return err
		}
	}
	u.open = append(u.open, unpacked{name, header.FileInfo().Mode().Perm(), header.ModTime})
	return nil
}

// clear removes what is in the way of an entry, but for a directory that may stay.
func (u *unpacking) clear(name string, directory bool) error {
	info, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return u.root.MkdirAll(path.Dir(name), 0o755)
	case err != nil:
		return err
	case info.IsDir() && directory:
		return nil
	}
	return u.root.Remove(name) // which fails for a directory with something in it
}

func (u *unpacking) regular(header *tar.Header, name string, contents io.Reader) error {
	if err := u.clear(name, false); err != nil {
		return err
	}
	file, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, contents)
	err = errors.Join(err, file.Chmod(header.FileInfo().Mode().Perm()), file.Close())
	if err != nil {
		return errors.Join(err, u.root.Remove(name))
	}
	return u.root.Chtimes(name, time.Time{}, header.ModTime)
}

func (u *unpacking) symlink(header *tar.Header, name string) error {
	if err := u.clear(name, false); err != nil {
		return err
	}
	return u.root.Symlink(header.Linkname, name)
}

// hardlink links to another entry. Of a file that was there before, a link could be used
// to change it.
func (u *unpacking) hardlink(header *tar.Header, name string) error {
	to, err := u.name(header.Linkname)
	if err != nil {
		return err
	}
	if err := u.clear(name, false); err != nil {
		return err
	}
	return u.root.Link(to, name)
}

// leave finishes the directories that an entry of this name is not in.
func (u *unpacking) leave(name string) error {
	for len(u.open) > 0 {
		last := u.open[len(u.open)-1]
		if name != "" && (last.name == "." || strings.HasPrefix(name, last.name+"/")) {
			return nil
		}
		u.open = u.open[:len(u.open)-1]
		if last.name == "." && u.kept {
			continue
		}
		if err := errors.Join(u.root.Chmod(last.name, last.mode), u.root.Chtimes(last.name, time.Time{}, last.modified)); err != nil {
			return err
		}
	}
	return nil
}
