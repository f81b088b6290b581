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
)

// inMemory are the file systems beside the root that a machine has in memory and whose
// files are kept. What is in /dev/shm belongs to processes.
var inMemory = []string{"tmp", "run"}

// made is what setUp has made of a machine.
type made struct {
	group string   // the directory of the commands' cgroup
	upper *os.File // what is written over the disk; nil without one
}

// sendFiles sends all that was written, while no command runs.
func (m *made) sendFiles(w http.ResponseWriter, r *http.Request) {
	thaw, err := guestinit.Freeze(r.Context(), m.group)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Trailer", guest.WholeTrailer)
	err = m.pack(r.Context(), w)
	if failed := thaw(); err == nil {
		err = failed
	}
	said := guest.Whole
	if err != nil {
		said = strings.Join(strings.Fields(err.Error()), " ")
	}
	w.Header().Set(guest.WholeTrailer, said)
}

func (m *made) pack(ctx context.Context, to io.Writer) error {
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

// takeFiles is for a machine in which nothing has run yet.
func (m *made) takeFiles(w http.ResponseWriter, r *http.Request) {
	root, err := os.Open("/")
	if err == nil {
		defer root.Close()
		err = upperdir.Unpack(r.Context(), r.Body, root)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
