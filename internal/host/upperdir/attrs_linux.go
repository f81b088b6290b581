package upperdir

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// overlayPrefix are the attributes by which overlayfs keeps its records. They
// mean something in their own layer only.
const (
	overlayPrefix = "user.overlay."
	opaqueName    = overlayPrefix + "opaque"
	// trustedOpaqueName is the same on a mount without the option userxattr, as that of a
	// machine is.
	trustedOpaqueName = "trusted.overlay.opaque"
	// redirectName is of a directory that was renamed and not copied, metacopyName of a
	// file whose content is still in a layer below. Mounts with userxattr have neither.
	redirectName = "trusted.overlay.redirect"
	metacopyName = "trusted.overlay.metacopy"
)

// maxAttrs is what the kernel allows for the names of a file's attributes, and
// for each value.
const maxAttrs = 64 << 10

// Attr is an attribute in user.*.
type Attr struct{ Name, Value string }

// Attrs gives the attributes of an open file or directory that are its user's
// own: those in user.*, without those of overlayfs.
func Attrs(f *os.File) ([]Attr, error) {
	list, err := attrs(int(f.Fd()))
	return list, fault("listxattr", f.Name(), err)
}

func attrs(fd int) (list []Attr, err error) {
	names, err := attrNames(fd)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		value := make([]byte, maxAttrs)
		n, err := unix.Fgetxattr(fd, name, value)
		if err != nil {
			return nil, err
		}
		list = append(list, Attr{name, string(value[:n])})
	}
	return list, nil
}

func attrNames(fd int) (names []string, err error) {
	size, err := unix.Flistxattr(fd, nil)
	if size == 0 || err == unix.ENOTSUP {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	buffer := make([]byte, maxAttrs)
	if size, err = unix.Flistxattr(fd, buffer); err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(string(buffer[:size]), "\x00") {
		if strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, overlayPrefix) {
			names = append(names, name)
		}
	}
	return names, nil
}

func isOpaque(fd int, name string) (bool, error) {
	var value [2]byte
	n, err := unix.Fgetxattr(fd, name, value[:])
	switch err {
	case nil:
		return string(value[:n]) == "y", nil
	case unix.ENODATA, unix.ENOTSUP, unix.ERANGE:
		return false, nil
	}
	return false, err
}
