package flatten

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"aether/internal/host/filetree"
	"aether/sandbox"
)

// Pack writes the files that layers, lowest first, show below a directory of a
// tar, empty for its root, and ends the tar. What belongs to this user belongs to
// root in it.
func Pack(ctx context.Context, layers []string, out *tar.Writer, below string) error {
	p := &packer{out: out, below: below, links: map[[2]uint64]string{}}
	if err := walk(ctx, layers, p.add); err != nil {
		return err
	}
	return out.Close()
}

type packer struct {
	out   *tar.Writer
	below string
	links map[[2]uint64]string // files with several names, by their first
	bytes int64                // of all files so far
}

// maxBytes bounds an image, as image/ does those it unpacks: a directory that somebody
// else keeps may hold a file of any size that is one hole.
const maxBytes = 64 << 30

// types of tar entries, by the kernel's types of files. A socket is of no use to
// those who did not make it.
var types = map[uint32]byte{0o040000: tar.TypeDir, 0o100000: tar.TypeReg, 0o120000: tar.TypeSymlink, 0o010000: tar.TypeFifo}

func (p *packer) add(name string, info filetree.Info, in *filetree.Dir) error {
	kind, ok := types[info.Kind()]
	if !ok {
		return nil
	}
	name = path.Join(p.below, name)
	header := &tar.Header{Typeflag: kind, Name: name, Mode: int64(info.Mode & 0o7777), ModTime: time.Unix(0, info.Modified), Format: tar.FormatPAX,
		Uid: own(info.UID, os.Geteuid()), Gid: own(info.GID, os.Getegid())}
	id := [2]uint64{info.Dev, info.Ino}
	if first, known := p.links[id]; known {
		header.Typeflag, header.Linkname = tar.TypeLink, first
		return p.out.WriteHeader(header)
	}
	if info.Links > 1 && !info.IsDir() {
		p.links[id] = name
	}
	return p.write(header, info, in)
}

// own gives what belongs to an ordinary user who keeps images to root, as a user
// namespace would.
func own(id uint32, self int) int {
	if int(id) == self {
		return 0
	}
	return int(id)
}

func (p *packer) write(header *tar.Header, info filetree.Info, in *filetree.Dir) (err error) {
	attrs, err := in.Attrs(info.Name, keepAttr)
	if err != nil {
		return err
	}
	for name, value := range attrs {
		if header.PAXRecords == nil {
			header.PAXRecords = map[string]string{}
		}
		header.PAXRecords["SCHILY.xattr."+name] = value
	}
	switch header.Typeflag {
	case tar.TypeSymlink:
		if header.Linkname, err = in.Readlink(info.Name); err != nil {
			return err
		}
	case tar.TypeReg:
		return p.file(header, info, in)
	}
	return p.out.WriteHeader(header)
}

func keepAttr(name string) bool {
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, overlayPrefix)
}

func (p *packer) file(header *tar.Header, info filetree.Info, in *filetree.Dir) error {
	file, err := in.OpenFile(info.Name)
	if err != nil {
		return err
	}
	defer file.Close()
	if p.bytes += min(info.Size, maxBytes+1); p.bytes > maxBytes {
		return sandbox.Invalidf("image", "its files have over %d bytes", int64(maxBytes))
	}
	header.Size = info.Size
	if err := p.out.WriteHeader(header); err != nil {
		return err
	}
	if n, err := io.CopyN(p.out, file, info.Size); err != nil {
		if errors.Is(err, io.EOF) {
			return &sandbox.Error{Class: sandbox.Unavailable, Retry: true,
				Reason: fmt.Sprintf("%s shrank to %d bytes while it was read", header.Name, n)}
		}
		return err
	}
	return nil
}
