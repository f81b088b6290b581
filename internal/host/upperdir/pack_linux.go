package upperdir

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"strconv"
)

// Tree is a directory to pack, and where it is below the root that it is unpacked into;
// empty is that root itself.
type Tree struct {
	At  string
	Dir *os.File
}

// An archive is a tar of the PAX format. What a tar has no words for is in records of
// our own; a whiteout is the device 0/0.
const (
	attrRecord   = "AETHER.attr." // and the attribute's name, in hexadecimal digits
	opaqueRecord = "AETHER.opaque"
	// sizeRecord is the size of a file with holes, whose content in the archive are its
	// extents: each with its offset and length before it.
	sizeRecord = "AETHER.size"
)

// leastHole is the smallest one that is kept.
const leastHole = 64 << 10

// Pack writes everything in the trees to an archive for Unpack: in the upper directory of
// an overlay that keeps its records in trusted.overlay, and in file systems of their own.
// What is mounted in one, and devices, are left out. Nothing may run in the sandbox
// meanwhile.
func Pack(ctx context.Context, to io.Writer, trees ...Tree) error {
	buffered := bufio.NewWriterSize(to, chunk/4)
	p := &packer{ctx: ctx, to: tar.NewWriter(buffered), links: map[ID]string{}}
	for _, tree := range trees {
		root, err := newEntry(int(tree.Dir.Fd()), ".", ".")
		if err != nil {
			return err
		}
		p.at, p.device = tree.At, root.ID.device
		if err := (&walk{ctx: ctx, visitor: p, opaque: trustedOpaqueName}).run(tree.Dir); err != nil {
			return err
		}
	}
	if err := p.to.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

// packer is the Visitor that writes an archive.
type packer struct {
	ctx    context.Context
	to     *tar.Writer
	at     string // where the tree belongs
	device uint64 // of the tree
	links  map[ID]string
}

func (p *packer) name(e *Entry) string {
	switch {
	case p.at == "":
		return e.Path
	case e.Path == ".":
		return p.at
	}
	return p.at + "/" + e.Path
}

// Enter implements Visitor.
func (p *packer) Enter(e *Entry) error {
	if e.ID.device != p.device {
		return fs.SkipDir
	}
	h := p.header(e, tar.TypeDir)
	if e.Opaque {
		h.PAXRecords[opaqueRecord] = "y"
	}
	if err := addAttrs(h, e.fd); err != nil {
		return fault("listxattr", e.Path, err)
	}
	h.Name += "/"
	return p.to.WriteHeader(h)
}

// Leave implements Visitor.
func (p *packer) Leave(*Entry) error { return nil }

var tarTypes = map[Kind]byte{File: tar.TypeReg, Symlink: tar.TypeSymlink, Fifo: tar.TypeFifo, Whiteout: tar.TypeChar, Socket: tar.TypeBlock}

// Visit implements Visitor. A tar has no sockets; a block device 0/0 stands for one.
func (p *packer) Visit(e *Entry) (err error) {
	kind, ok := tarTypes[e.Kind]
	if !ok || e.ID.device != p.device {
		return nil
	}
	h := p.header(e, kind)
	if first, ok := p.links[e.ID]; ok && e.Kind != Whiteout {
		h.Typeflag, h.Linkname = tar.TypeLink, first
		return p.to.WriteHeader(h)
	}
	if e.Links > 1 && e.Kind != Whiteout { // overlayfs makes one device do for many
		p.links[e.ID] = h.Name
	}
	if e.Kind == File {
		return p.file(e, h)
	}
	if e.Kind == Symlink {
		if h.Linkname, err = e.Target(); err != nil {
			return err
		}
	}
	return p.to.WriteHeader(h)
}

func (p *packer) header(e *Entry, kind byte) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: p.name(e), Mode: int64(e.Perm), Uid: int(e.UID), Gid: int(e.GID), ModTime: e.Modified,
		AccessTime: e.Accessed, PAXRecords: map[string]string{}, Format: tar.FormatPAX}
}

func addAttrs(h *tar.Header, fd int) error {
	list, err := attrs(fd)
	for _, a := range list {
		h.PAXRecords[attrRecord+hex.EncodeToString([]byte(a.Name))] = hex.EncodeToString([]byte(a.Value))
	}
	return err
}

func (p *packer) file(e *Entry, h *tar.Header) error {
	file, err := e.Open()
	if err != nil {
		return err
	}
	defer file.Close()
	if err := addAttrs(h, int(file.Fd())); err != nil {
		return fault("listxattr", e.Path, err)
	}
	if e.dense {
		h.Size = e.Size
		if err := p.to.WriteHeader(h); err != nil {
			return err
		}
		return p.data(file, Extent{0, e.Size})
	}
	return p.sparse(file, e, h)
}

// extentHeader is the offset and the length before an extent.
const extentHeader = 16

func (p *packer) sparse(file *os.File, e *Entry, h *tar.Header) error {
	list, err := Extents(file, e.Size, leastHole)
	if err != nil {
		return err
	}
	for _, x := range list {
		h.Size += extentHeader + x.Length
	}
	h.PAXRecords[sizeRecord] = strconv.FormatInt(e.Size, 10)
	if err := p.to.WriteHeader(h); err != nil {
		return err
	}
	for _, x := range list {
		if err := binary.Write(p.to, binary.BigEndian, x); err != nil {
			return err
		}
		if err := p.data(file, x); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) data(file *os.File, x Extent) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	n, err := io.Copy(p.to, io.NewSectionReader(file, x.Offset, x.Length))
	if err == nil && n < x.Length {
		return ErrChanged
	}
	return err
}
