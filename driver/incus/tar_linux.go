package incus

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"strings"
	"time"

	"aether/host/filetree"
	"aether/sandbox"
)

// label is what is told of an image beside its files.
type label struct{ name, source string }

// machines are the daemon's names of architectures.
var machines = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// metadata describes an image, in YAML. It is a part of the image, so that images
// with different names never are the same to the daemon.
func (l label) metadata() string {
	return fmt.Sprintf("architecture: %s\ncreation_date: 1\nproperties:\n  description: aether\n  %s: %q\n  %s: %q\n",
		machines[runtime.GOARCH], nameProperty, l.name, sourceProperty, l.source)
}

// rootName is where the daemon looks for the files.
const rootName = "rootfs"

// pack writes the files that layers show as an image of Incus: a tar of a
// description and the files.
func pack(ctx context.Context, l label, layers []string, to io.Writer) error {
	p := &packer{out: tar.NewWriter(to), links: map[[2]uint64]string{}}
	if err := p.begin(l); err != nil {
		return err
	}
	if err := walk(ctx, layers, p.add); err != nil {
		return err
	}
	return p.out.Close()
}

type packer struct {
	out   *tar.Writer
	links map[[2]uint64]string // files with several names, by their first
}

func (p *packer) begin(l label) error {
	text := l.metadata()
	if err := p.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "metadata.yaml", Mode: 0o644, Size: int64(len(text))}); err != nil {
		return err
	}
	if _, err := io.WriteString(p.out, text); err != nil {
		return err
	}
	return p.out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: rootName + "/", Mode: 0o755})
}

// types of tar entries, by the kernel's types of files. A socket is of no use to
// those who did not make it.
var types = map[uint32]byte{0o040000: tar.TypeDir, 0o100000: tar.TypeReg, 0o120000: tar.TypeSymlink, 0o010000: tar.TypeFifo}

func (p *packer) add(name string, info filetree.Info, in *filetree.Dir) error {
	kind, ok := types[info.Kind()]
	if !ok {
		return nil
	}
	name = path.Join(rootName, name)
	header := &tar.Header{Typeflag: kind, Name: name, Mode: int64(info.Mode & 0o7777), ModTime: time.Unix(0, info.Modified), Format: tar.FormatPAX,
		Uid: int(info.UID), Gid: int(info.GID)}
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
