package layerfs

import (
	"io/fs"
	"strings"
	"time"
)

const (
	maxID      = 65535
	overflowID = 65534
	// lastSecond is the last that ext4 can store.
	lastSecond = 1<<34 - 1<<31 - 1

	// overlayPrefix are the attributes by which overlayfs is steered. A layer
	// that brought its own could redirect directories of the layers below it.
	overlayPrefix = "user.overlay."
	opaqueName    = overlayPrefix + "opaque"
)

// Meta is what an entry has beside its content.
type Meta struct {
	UID, GID int
	// Mode is used for its permission bits and the sticky bit. Set-user-id and
	// set-group-id bits are dropped: on the host they would be armed.
	Mode    fs.FileMode
	ModTime time.Time
	// Xattrs are set on files and directories, and only those in user.*, without
	// those of overlayfs.
	Xattrs map[string]string
}

// Size is what the attributes take, names and values.
func (m Meta) Size() (size int) {
	for name, value := range m.Xattrs {
		size += len(name) + len(value)
	}
	return size
}

// Run is a run of bytes in a file.
type Run struct{ Offset, Length int64 }

func (m Meta) perm() uint32 {
	perm := uint32(m.Mode.Perm())
	if m.Mode&fs.ModeSticky != 0 {
		perm |= 0o1000
	}
	return perm
}

func (m Meta) owner() (uid, gid int) { return clampID(m.UID), clampID(m.GID) }

func clampID(id int) int {
	if id < 0 || id > maxID {
		return overflowID
	}
	return id
}

func (m Meta) seconds() int64 { return min(max(m.ModTime.Unix(), 0), lastSecond) }

func keepXattr(name string) bool {
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, overlayPrefix)
}
