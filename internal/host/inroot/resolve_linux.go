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
		if err := r.followable(next); err != nil {
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

// followable refuses the magic links of /proc: their text is that of another root, and
// means something else in this one.
func (r *Root) followable(link string) error {
	f, err := r.open(link, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if special, err := Special(f); err != nil || !special {
		return err
	}
	if to, err := r.open(link, unix.O_PATH, 0); err == nil {
		return to.Close()
	} else if errors.Is(err, unix.ENOENT) {
		return nil // a plain one, to what is not there
	} else {
		return err
	}
}
