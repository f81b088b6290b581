package initramfs

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// Types of an entry, as the kernel's modes have them.
const (
	typeDir    = 0o040000
	typeFile   = 0o100000
	typeLink   = 0o120000
	typeDevice = 0o020000

	trailer = "TRAILER!!!"
	// maxFile is what the format can express.
	maxFile = 1<<32 - 1
)

// Writer writes one archive. Everything in it belongs to root and has no time, so
// that the same content gives the same bytes. The first error stays until Close.
type Writer struct {
	to    io.Writer
	at    int64
	inode uint32
	made  map[string]bool // directories
	err   error
}

// NewWriter starts an archive. Archives may follow each other: a kernel unpacks
// them all.
func NewWriter(to io.Writer) *Writer {
	return &Writer{to: to, made: map[string]bool{".": true}}
}

// Dir makes a directory, and those above it.
func (w *Writer) Dir(name string, perm uint32) {
	name = clean(name)
	if w.made[name] {
		return
	}
	w.parents(name)
	w.made[name] = true
	w.entry(header{name: name, mode: typeDir | perm, links: 2}, nil)
}

// File makes a file, and the directories above it.
func (w *Writer) File(name string, perm uint32, content []byte) {
	w.parents(clean(name))
	w.entry(header{name: clean(name), mode: typeFile | perm, links: 1}, content)
}

// Symlink makes a link.
func (w *Writer) Symlink(target, name string) {
	w.parents(clean(name))
	w.entry(header{name: clean(name), mode: typeLink | 0o777, links: 1}, []byte(target))
}

// Device makes a character device.
func (w *Writer) Device(name string, perm, major, minor uint32) {
	w.parents(clean(name))
	w.entry(header{name: clean(name), mode: typeDevice | perm, links: 1, major: major, minor: minor}, nil)
}

// Close ends the archive.
func (w *Writer) Close() error {
	w.entry(header{name: trailer, links: 1}, nil)
	w.pad(512)
	return w.err
}

// clean makes a name as the format has it: relative, without ways up.
func clean(name string) string { return path.Clean(strings.TrimLeft(path.Clean("/"+name), "/")) }

func (w *Writer) parents(name string) {
	if parent := path.Dir(name); parent != "." {
		w.Dir(parent, 0o755)
	}
}

type header struct {
	name         string
	mode, links  uint32
	major, minor uint32
}

// entry writes a header of fields in hexadecimal, the name and the content, each
// padded to four bytes.
func (w *Writer) entry(h header, content []byte) {
	if len(content) > maxFile && w.err == nil {
		w.err = fmt.Errorf("initramfs: %s has %d bytes, more than the format allows", h.name, len(content))
	}
	w.inode++
	head := "070701"
	for _, field := range []uint32{
		w.inode, h.mode, 0, 0, h.links, 0, uint32(len(content)), 0, 0, h.major, h.minor, uint32(len(h.name) + 1), 0,
	} {
		head += fmt.Sprintf("%08x", field)
	}
	w.put([]byte(head + h.name + "\x00"))
	w.pad(4)
	w.put(content)
	w.pad(4)
}

func (w *Writer) put(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.to.Write(b)
	w.at += int64(n)
	w.err = err
}

func (w *Writer) pad(to int64) { w.put(make([]byte, (to-w.at%to)%to)) }
