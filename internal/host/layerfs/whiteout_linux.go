package layerfs

import "golang.org/x/sys/unix"

// Whiteout hides name of the layers below. Where this layer itself has an entry
// of that name, the entry stays, and a directory hides the one below. It is
// called after all entries are made: their order in an archive means nothing.
func (t *Tree) Whiteout(name string) error {
	parent, base, err := t.at(name)
	if err != nil {
		return err
	}
	err = unix.Mknodat(parent, base, unix.S_IFCHR, 0)
	if err != unix.EEXIST {
		return fault("whiteout", name, err)
	}
	if isDir(parent, base) {
		return t.Opaque(name)
	}
	return nil
}

// Opaque hides what the layers below have in the directory name, which is made
// if it is missing.
func (t *Tree) Opaque(name string) error {
	if err := t.Mkdir(name); err != nil {
		return err
	}
	if name == "." {
		return fault("opaque", name, setXattr(int(t.root.Fd()), ".", opaqueName, "y"))
	}
	parent, base, err := t.at(name)
	if err != nil {
		return err
	}
	return fault("opaque", name, setXattr(parent, base, opaqueName, "y"))
}
