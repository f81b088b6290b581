package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"aether/lab"
)

// oci is a runtime with the command line of runc.
type oci struct {
	launcher    *launcher
	path        string
	state       string // where the runtime keeps its own
	first, stay string // bundles
	count       *atomic.Uint64
}

func newOCI(l *launcher, dir, name, path, root string) (oci, error) {
	dir = filepath.Join(dir, name)
	o := oci{launcher: l, path: path, state: filepath.Join(dir, "state"), count: new(atomic.Uint64)}
	if err := os.MkdirAll(o.state, 0o711); err != nil {
		return o, err
	}
	var err error
	if o.first, err = writeBundle(filepath.Join(dir, "first"), root, firstPath); err != nil {
		return o, err
	}
	o.stay, err = writeBundle(filepath.Join(dir, "stay"), root, stayPath)
	return o, err
}

// noKeyring spares a container its session keyring, which a cell has none of:
// the kernel allows a user 200 keys, and so 200 containers.
const noKeyring = "--no-new-keyring"

// id names a container. It also names its cgroups, so it is this program's own.
func (o oci) id() string {
	return fmt.Sprintf("aether-bench-%d-%d", os.Getpid(), o.count.Add(1))
}

func (o oci) args(verb string, more ...string) []string {
	return append([]string{"--root", o.state, verb}, more...)
}

func (o oci) cold(context.Context) (lab.Sample, error) {
	id := o.id()
	s, sample, err := o.launcher.firstByte(o.path, o.args("run", noKeyring, "--bundle", o.first, id)...)
	if err != nil {
		return sample, o.dropAfter(err, id)
	}
	return sample, s.wait()
}

// dropAfter removes what a failed run may have left; a container that was never
// made cannot be removed, which is then not worth a word.
func (o oci) dropAfter(err error, id string) error {
	if _, missing := os.Stat(filepath.Join(o.state, id)); missing != nil {
		return err
	}
	return errors.Join(err, o.delete(id))
}

func (o oci) delete(id string) error {
	return o.launcher.run(o.path, o.args("delete", "--force", id)...)
}

func (o oci) live(context.Context) (living, error) {
	id := o.id()
	s, _, err := o.launcher.firstByte(o.path, o.args("run", noKeyring, "--detach", "--bundle", o.stay, id)...)
	if err != nil {
		return nil, o.dropAfter(err, id)
	}
	// The runtime itself ends; the container holds the output open.
	if err := s.cmd.Wait(); err != nil {
		return nil, o.dropAfter(s.failed(err), id)
	}
	return ociLiving{o, s, id}, nil
}

func (o oci) close() error { return nil }

type ociLiving struct {
	oci
	started *started
	id      string
}

func (l ociLiving) exec(context.Context) (lab.Sample, error) {
	s, sample, err := l.launcher.firstByte(l.path, l.args("exec", l.id, firstPath)...)
	if err != nil {
		return sample, err
	}
	return sample, s.wait()
}

func (l ociLiving) end() error {
	return errors.Join(l.delete(l.id), l.started.out.drained())
}
