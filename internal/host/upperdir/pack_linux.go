package upperdir

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// Tree is a directory to pack. Unless it is said otherwise, it is the upper directory of
// an overlay that keeps its records in trusted.overlay, or a file system of its own.
type Tree struct {
	// At is where it belongs below the root that it is unpacked into; empty is that root
	// itself.
	At  string
	Dir *os.File
	// UserAttrs: the overlay was mounted with the option userxattr, and keeps its records
	// in user.overlay.
	UserAttrs bool
	// Whole: it is a root with everything in it, and the root that it is unpacked into has
	// nothing else afterwards.
	Whole bool
	// Owner, if set, gives the owners inside that files of the host are to have.
	Owner Owner
}

func (t Tree) opaqueName() string {
	if t.UserAttrs {
		return opaqueName
	}
	return trustedOpaqueName
}

// An archive is a tar of the PAX format. What a tar has no words for is in records of
// our own; a whiteout is the device 0/0.
const (
	attrRecord   = "AETHER.attr." // and the attribute's name, in hexadecimal digits
	opaqueRecord = "AETHER.opaque"
	// sizeRecord is the size of a file with holes, whose content in the archive are its
	// extents: each with its offset and length before it.
	sizeRecord = "AETHER.size"
	// wholeRecord, of the root, says that it has nothing but what is in the archive.
	wholeRecord = "AETHER.whole"
)

// leastHole is the smallest one that is kept.
const leastHole = 64 << 10

// Pack writes everything in the trees to an archive for Unpack. What is mounted in one,
// and devices, are left out. Nothing may run in the sandbox meanwhile. Errors: Unsupported
// for what an overlay keeps elsewhere than where it was written.
func Pack(ctx context.Context, to io.Writer, trees ...Tree) error {
	buffered := bufio.NewWriterSize(to, chunk/4)
	p := &packer{ctx: ctx, to: tar.NewWriter(buffered), links: map[ID]string{}}
	for _, tree := range trees {
		root, err := newEntry(int(tree.Dir.Fd()), ".", ".")
		if err != nil {
			return err
		}
		p.tree, p.device = tree, root.ID.device
		if err := (&walk{ctx: ctx, visitor: p, opaque: tree.opaqueName()}).run(tree.Dir); err != nil {
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
	tree   Tree
	device uint64 // of the tree
	links  map[ID]string
}

func (p *packer) name(e *Entry) string {
	switch {
	case p.tree.At == "":
		return e.Path
	case e.Path == ".":
		return p.tree.At
	}
	return p.tree.At + "/" + e.Path
}

// mounted says that an entry is not the tree's own. A whole root may have other mounts of
// its own file system in it, and be an overlay, whose files have the numbers of others.
func (p *packer) mounted(e *Entry) (bool, error) {
	if !p.tree.Whole || e.Path == "." {
		return e.ID.device != p.device, nil
	}
	fd, err := openWithin(e.parent, e.name, unix.O_PATH)
	if err == nil {
		unix.Close(fd)
	}
	if err == unix.EXDEV {
		return true, nil
	}
	return false, fault("open", e.Path, err)
}

// Enter implements Visitor.
func (p *packer) Enter(e *Entry) error {
	if mounted, err := p.mounted(e); mounted || err != nil {
		return cmp.Or(err, fs.SkipDir)
	}
	if err := p.refuses(e.fd, e.Path, redirectName); err != nil {
		return err
	}
	h, err := p.header(e, tar.TypeDir)
	if err != nil {
		return err
	}
	if e.Opaque && !p.tree.Whole {
		h.PAXRecords[opaqueRecord] = "y"
	}
	if p.tree.Whole && e.Path == "." {
		h.PAXRecords[wholeRecord] = "y"
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
	if !ok || p.tree.Whole && e.Kind == Whiteout {
		return nil
	}
	if mounted, err := p.mounted(e); mounted || err != nil {
		return err
	}
	h, err := p.header(e, kind)
	if err != nil {
		return err
	}
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

func (p *packer) header(e *Entry, kind byte) (*tar.Header, error) {
	h := &tar.Header{Typeflag: kind, Name: p.name(e), Mode: int64(e.Perm), Uid: int(e.UID), Gid: int(e.GID), ModTime: e.Modified,
		AccessTime: e.Accessed, PAXRecords: map[string]string{}, Format: tar.FormatPAX}
	if p.tree.Owner == nil || e.Kind == Whiteout { // which is overlayfs's own
		return h, nil
	}
	var err error
	h.Uid, h.Gid, err = p.tree.Owner(e.UID, e.GID)
	return h, fault("owner", e.Path, err)
}

// refuses what an overlay that keeps its records in trusted.overlay may have been told
// to keep elsewhere: content below, or a directory by another name. Errors: Unsupported.
func (p *packer) refuses(fd int, path, attr string) error {
	if p.tree.UserAttrs || p.tree.Whole {
		return nil
	}
	_, err := unix.Fgetxattr(fd, attr, nil)
	switch err {
	case unix.ENODATA, unix.ENOTSUP:
		return nil
	case nil:
		return &sandbox.Error{Class: sandbox.Unsupported, Op: "upper: pack", Reason: fmt.Sprintf("%.200q is kept in part among the files of the image (%s)", path, attr),
			Remedy: "have the kernel's overlays mounted without redirect_dir and metacopy"}
	}
	return fault("getxattr", path, err)
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
	if err := p.refuses(int(file.Fd()), e.Path, metacopyName); err != nil {
		return err
	}
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
