package image

import (
	"archive/tar"
	"path"
	"strings"

	"aether/internal/host/layerfs"
)

const (
	whiteoutPrefix = ".wh."
	opaqueMarker   = ".wh..wh..opq"
	// aufsPrefix begins the book-keeping of a file system of old, which is of no
	// use to anybody else.
	aufsPrefix  = ".wh..wh."
	xattrPrefix = "SCHILY.xattr."
)

// entryName makes the name of an entry relative and clean. Names that climb are
// refused and not bent: no builder writes them.
func entryName(raw string) (string, error) {
	if len(raw) > maxPath || strings.ContainsRune(raw, 0) {
		return "", invalid("the entry %.80q has a name over %d bytes or with a zero byte", raw, maxPath)
	}
	depth := 0
	for part := range strings.SplitSeq(raw, "/") {
		switch {
		case part == "..":
			return "", invalid("the entry %.200q climbs out of its directory", raw)
		case len(part) > maxComponent:
			return "", invalid("the entry %.80q has a part over %d bytes", raw, maxComponent)
		case part != "" && part != ".":
			depth++
		}
	}
	if depth > maxDepth {
		return "", invalid("the entry %.80q is %d directories deep, more than %d", raw, depth, maxDepth)
	}
	return path.Clean("./" + raw), nil
}

// kind is what an entry's name says it is.
type kind int

const (
	ordinary kind = iota
	whiteout      // hides the name
	opaque        // hides what lies below the name
	ignored
)

// classify reads the whiteout convention: it gives the name that is hidden.
func classify(name string) (kind, string, error) {
	dir, base := path.Split(name)
	switch {
	case strings.HasPrefix(dir, aufsPrefix) || strings.Contains(dir, "/"+aufsPrefix):
		return ignored, name, nil
	case strings.HasPrefix(dir, whiteoutPrefix) || strings.Contains(dir, "/"+whiteoutPrefix):
		return ignored, "", invalid("the entry %.200q lies within a whiteout", name)
	case base == opaqueMarker:
		return opaque, path.Clean("./" + dir), nil
	case strings.HasPrefix(base, aufsPrefix):
		return ignored, name, nil
	case !strings.HasPrefix(base, whiteoutPrefix):
		return ordinary, name, nil
	}
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	if hidden == "" || hidden == "." || hidden == ".." {
		return ignored, "", invalid("the whiteout %.200q hides no name", name)
	}
	return whiteout, path.Join(dir, hidden), nil
}

func metaOf(header *tar.Header) (layerfs.Meta, error) {
	meta := layerfs.Meta{UID: header.Uid, GID: header.Gid, Mode: header.FileInfo().Mode(), ModTime: header.ModTime}
	size := 0
	for key, value := range header.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok {
			continue
		}
		if size += len(name) + len(value); size > maxXattrs || len(name) > maxComponent {
			return meta, invalid("the entry %.200q has attributes over %d bytes", header.Name, maxXattrs)
		}
		if meta.Xattrs == nil {
			meta.Xattrs = map[string]string{}
		}
		meta.Xattrs[name] = value
	}
	return meta, nil
}
