package inroot

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

const maxLinks = 40

// Resolve answers the path without links that name leads to at this moment. It
// is for showing and for choosing a Place; opening the answer resolves again.
func (r *Root) Resolve(name string) (string, error) {
	done, rest, links := "/", strings.TrimPrefix(Clean(name), "/"), 0
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		next := path.Join(done, part)
		target, err := r.Readlink(next)
		switch {
		case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL):
			// Not a link (readlinkat says ENOENT of an O_PATH file), or missing,
			// which only the last part may be.
			if _, err := r.Lstat(next); err != nil && rest != "" {
				return "", err
			}
			done = next
			continue
		case err != nil:
			return "", err
		}
		if links++; links > maxLinks {
			return "", pathError("resolve", name, unix.ELOOP)
		}
		if path.IsAbs(target) {
			done = "/"
		}
		// Joining as text is right here: done holds no link, so its parent is
		// the one that ".." means.
		rest = strings.TrimPrefix(path.Join(done, target, rest), "/")
		done = "/"
	}
	return done, nil
}
