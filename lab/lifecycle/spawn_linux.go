package lifecycle

import (
	"errors"
	"os"
	"os/exec"

	"aether/lab"
)

// Bwrap is bubblewrap's cold spawn as others measure it beside what is theirs, if
// bubblewrap is here. undo must be called.
func Bwrap() (_ lab.Contender, undo func() error) {
	path, err := exec.LookPath(nameBwrap)
	if err != nil {
		return lab.Skip(nameBwrap, err), func() error { return nil }
	}
	dir, err := os.MkdirTemp("", "aether-bench-")
	if err != nil {
		return lab.Skip(nameBwrap, err), func() error { return nil }
	}
	remove := func() error { return os.RemoveAll(dir) }
	root, err := newRoot(dir)
	if err != nil {
		return lab.Skip(nameBwrap, err), remove
	}
	l, err := newLauncher(dir)
	if err != nil {
		return lab.Skip(nameBwrap, err), remove
	}
	return lab.Contender{Name: nameBwrap, Take: bwrap{l, path, root}.cold}, func() error { return errors.Join(l.close(), remove()) }
}
