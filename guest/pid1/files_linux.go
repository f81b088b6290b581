package pid1

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"

	"aether/guest"
	"aether/internal/host/guestinit"
	"aether/internal/host/upperdir"
	"aether/sandbox"
)

// inMemory are the file systems beside the root that a machine has in memory and whose
// files are kept. What is in /dev/shm belongs to processes.
var inMemory = []string{"tmp", "run"}

// made is what setUp has made of a machine.
type made struct {
	group string   // the directory of the commands' cgroup
	upper *os.File // what is written over the disk; nil without one
	// container: somebody else has made all of it.
	container bool
	network   network
	holds     holds
}

// freeze has no command run.
func (m *made) freeze(ctx context.Context) (thaw func() error, err error) {
	if m.container {
		return guestinit.StopOthers(ctx)
	}
	return guestinit.Freeze(ctx, m.group)
}

// sendFiles sends all that was written, while no command runs.
func (m *made) sendFiles(w http.ResponseWriter, r *http.Request) {
	if err := m.holds.take(r.Context(), m.freeze); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Trailer", guest.WholeTrailer)
	err := m.pack(r.Context(), w)
	if failed := m.holds.release(); err == nil {
		err = failed
	}
	said := guest.Whole
	if err != nil {
		said = strings.Join(strings.Fields(err.Error()), " ")
	}
	w.Header().Set(guest.WholeTrailer, said)
}

func (m *made) pack(ctx context.Context, to io.Writer) error {
	if m.container {
		return packRoot(ctx, to)
	}
	trees := []upperdir.Tree{{Dir: m.upper}}
	for _, name := range inMemory {
		dir, err := os.Open("/" + name)
		if err != nil {
			return err
		}
		defer dir.Close()
		trees = append(trees, upperdir.Tree{At: name, Dir: dir})
	}
	return upperdir.Pack(ctx, to, trees...)
}

// packRoot sends everything: from inside of a container nobody knows what of it was
// written, and what its image has.
func packRoot(ctx context.Context, to io.Writer) error {
	root, err := os.Open("/")
	if err != nil {
		return err
	}
	defer root.Close()
	return upperdir.Pack(ctx, to, upperdir.Tree{Dir: root, Whole: true})
}

// takeFiles is for a machine or a container in which nothing has run yet. What is mounted
// in a container is the host's.
func (m *made) takeFiles(w http.ResponseWriter, r *http.Request) {
	unpack := upperdir.Unpack
	if m.container {
		unpack = upperdir.UnpackWithin
	}
	root, err := os.Open("/")
	if err == nil {
		defer root.Close()
		err = unpack(r.Context(), r.Body, root)
	}
	if err != nil {
		status := http.StatusUnprocessableEntity
		if sandbox.ClassOf(err) == sandbox.Exhausted {
			status = http.StatusInsufficientStorage
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
