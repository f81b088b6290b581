package image

import (
	"archive/tar"
	"context"
	"io"
	"io/fs"
	"os"
	"path"
	"time"
)

// resolveArchive reads an image in a tar file, which is read where it lies: no
// copy of it is made.
func (s *Store) resolveArchive(ctx context.Context, name string, pick selector, progress func(Progress)) (Root, error) {
	file, err := os.Open(name)
	if err != nil {
		return Root{}, pathFailure(err)
	}
	defer file.Close()
	members, err := indexTar(file)
	if err != nil {
		return Root{}, err
	}
	src, err := members.source(pick)
	if err != nil {
		return Root{}, err
	}
	return s.install(ctx, localRef(name, pick), src, progress)
}

func (t *tarFS) source(pick selector) (*source, error) {
	if t.has(dockerManifest) {
		return dockerSource(t, pick)
	}
	if t.has(layoutFile) {
		return layout{t}.source(pick)
	}
	return nil, invalid("the file is no archive of an image: it has neither %s nor %s", dockerManifest, layoutFile)
}

// tarFS shows the regular files of an uncompressed tar file as a file system.
type tarFS struct {
	file    io.ReaderAt
	members map[string]member
	links   map[string]string
}

type member struct{ offset, size int64 }

// indexTar notes where each member lies. Names are only keys here: they never
// become paths on the host.
func indexTar(file *os.File) (*tarFS, error) {
	t := &tarFS{file: file, members: map[string]member{}, links: map[string]string{}}
	archive := tar.NewReader(file)
	for count := 0; ; count++ {
		header, err := archive.Next()
		if err == io.EOF {
			return t, nil
		}
		if err != nil {
			return nil, invalidCause(err, "the file is no tar archive (a compressed one must be decompressed first)")
		}
		if count >= maxMembers {
			return nil, invalid("the archive has more than %d members", maxMembers)
		}
		if err := t.note(header, file); err != nil {
			return nil, err
		}
	}
}

func (t *tarFS) note(header *tar.Header, file io.Seeker) error {
	name, err := entryName(header.Name)
	if err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeReg:
		// The reader asks for whole blocks only, so the file stands at the content.
		offset, err := file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		t.members[name] = member{offset, header.Size}
	case tar.TypeSymlink:
		// Old versions of docker save share equal layers this way.
		if len(header.Linkname) > maxPath {
			return invalid("the link %.80q has a target over %d bytes", name, maxPath)
		}
		t.links[name] = path.Join(path.Dir(name), header.Linkname)
	}
	return nil
}

func (t *tarFS) has(name string) bool { _, ok := t.members[name]; return ok }

// Open gives a member.
func (t *tarFS) Open(name string) (fs.File, error) {
	found, err := t.find(name)
	if err != nil {
		return nil, err
	}
	return t.open(found, name), nil
}

// find follows a link once.
func (t *tarFS) find(name string) (member, error) {
	if found, ok := t.members[name]; ok {
		return found, nil
	}
	if found, ok := t.members[t.links[name]]; ok {
		return found, nil
	}
	return member{}, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (t *tarFS) open(m member, name string) *tarMember {
	return &tarMember{io.NewSectionReader(t.file, m.offset, m.size), path.Base(name)}
}

// tarMember is an open member, and its own description.
type tarMember struct {
	*io.SectionReader
	name string
}

func (m *tarMember) Stat() (fs.FileInfo, error) { return m, nil }
func (m *tarMember) Close() error               { return nil }
func (m *tarMember) Name() string               { return m.name }
func (m *tarMember) Mode() fs.FileMode          { return 0o444 }
func (m *tarMember) ModTime() time.Time         { return time.Time{} }
func (m *tarMember) IsDir() bool                { return false }
func (m *tarMember) Sys() any                   { return nil }
