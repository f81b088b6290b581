package inroot

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxAttrs bounds what is read of a file's attributes, names and each value.
const maxAttrs = 64 << 10

// SetAttr sets one extended attribute. A file system that has none answers an
// error that is errors.ErrUnsupported.
func SetAttr(f *os.File, name, value string) error {
	if err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0); err != nil {
		return pathError("setxattr", f.Name(), err)
	}
	return nil
}

// Attrs reads the attributes whose names start with prefix, without it. The
// file may be opened for its path only; one that may not be read, or has no
// attributes, has an empty answer.
func Attrs(f *os.File, prefix string) (map[string]string, error) {
	// An O_PATH descriptor refuses fgetxattr; its link in /proc does not, and
	// leads to that very file.
	name := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	list, err := listAttrs(name)
	if err != nil {
		return nil, pathError("listxattr", f.Name(), err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	attrs := map[string]string{}
	value := make([]byte, maxAttrs)
	for attr := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		key, ours := strings.CutPrefix(attr, prefix)
		if !ours {
			continue
		}
		// One that is gone by now, or may not be read, is left out.
		if n, err := unix.Getxattr(name, attr, value); err == nil {
			attrs[key] = string(value[:n])
		}
	}
	return attrs, nil
}

func listAttrs(name string) ([]byte, error) {
	size, err := unix.Listxattr(name, nil)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return nil, nil
	}
	if err != nil || size == 0 {
		return nil, err
	}
	list := make([]byte, maxAttrs)
	n, err := unix.Listxattr(name, list)
	if err != nil {
		return nil, err
	}
	return list[:n], nil
}
