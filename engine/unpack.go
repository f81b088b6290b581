package engine

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"strings"
	"time"

	"aether/sandbox"
)

const (
	// maxUnpacked bounds what an archive becomes, and maxEntries of how many parts.
	maxUnpacked = 32 << 30
	maxEntries  = 1 << 20
)

// unpacking is files on their way into a sandbox.
type unpacking struct {
	Files
	there bool // the target is a directory already, which stays as it is
}

// move writes an archive anew, in which what is meant has the names, from that of the target
// on, and the mode that it is to have. Errors: Invalid for what is no archive, or has nothing of the source.
func (f unpacking) move(archive io.Reader, to io.Writer) error {
	plain, err := unzipped(archive)
	if err != nil {
		return badArchive(err)
	}
	from, into := tar.NewReader(plain), tar.NewWriter(to)
	found, size := 0, int64(0)
	for entries := 0; ; entries++ {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return badArchive(err)
		}
		if size += h.Size; size > maxUnpacked || entries == maxEntries {
			return sandbox.Invalidf("archive", "it has more than %d entries, or %d bytes", maxEntries, int64(maxUnpacked))
		}
		rest, meant := f.within(path.Clean("/" + h.Name))
		if !meant {
			continue
		}
		found++
		moved := f.moved(h, rest)
		if moved == nil {
			continue
		}
		if err := into.WriteHeader(moved); err != nil {
			return err
		}
		if _, err := io.Copy(into, from); err != nil {
			return err
		}
	}
	if found == 0 {
		return sandbox.Invalidf("archive", "nothing of it is %.80q", f.Source)
	}
	return into.Close()
}

func badArchive(err error) error {
	return &sandbox.Error{Class: sandbox.Invalid, Field: "archive", Reason: "it is not a tar archive", Err: err}
}

// unzipped is an archive as it was before it was compressed, if it was.
func unzipped(archive io.Reader) (io.Reader, error) {
	peeked := bufio.NewReader(archive)
	if magic, err := peeked.Peek(2); err != nil || !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return peeked, nil
	}
	return gzip.NewReader(peeked)
}

// moved is an entry as it is to be unpacked, so far below the source; nil for what is no
// file, directory or link.
func (f unpacking) moved(h *tar.Header, rest string) *tar.Header {
	name := path.Clean("/" + h.Name)
	moved := &tar.Header{Typeflag: h.Typeflag, Size: h.Size, Mode: h.Mode & 0o7777, ModTime: time.Unix(h.ModTime.Unix(), 0)}
	switch h.Typeflag {
	case tar.TypeReg:
		if rest == "" && strings.HasSuffix(f.Target, "/") || rest == "" && strings.ContainsAny(f.Source, `*?[`) {
			rest = path.Base(name)
		}
		if f.Mode != 0 {
			moved.Mode = f.Mode
		}
	case tar.TypeDir:
		if rest == "" && f.there {
			return nil
		}
		if f.Mode != 0 {
			moved.Mode = f.Mode | f.Mode&0o444>>2
		}
	case tar.TypeSymlink:
		if rest == "" && strings.HasSuffix(f.Target, "/") {
			rest = path.Base(name)
		}
		moved.Linkname = h.Linkname
	default:
		return nil
	}
	moved.Name = path.Join(path.Base(f.Target), rest)
	return moved
}

// directory writes an archive of the target alone, which is a directory.
func (f unpacking) directory(to io.Writer) error {
	into := tar.NewWriter(to)
	err := into.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path.Base(f.Target), Mode: 0o755, ModTime: time.Unix(0, 0)})
	return errors.Join(err, into.Close())
}

// within says where below the source a name is: nowhere, if it is the source itself.
func (f Files) within(name string) (rest string, ok bool) {
	source := path.Clean("/" + f.Source)
	if source == "/" {
		return strings.TrimPrefix(name, "/"), true
	}
	parts := strings.Split(name, "/")
	depth := strings.Count(source, "/") + 1
	if len(parts) < depth {
		return "", false
	}
	head := strings.Join(parts[:depth], "/")
	if matched, err := path.Match(source, head); head != source && (err != nil || !matched) {
		return "", false
	}
	return strings.Join(parts[depth:], "/"), true
}
