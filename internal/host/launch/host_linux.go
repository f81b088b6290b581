package launch

import (
	"errors"
	"fmt"
	"os"
	"time"

	"aether/internal/host/idrange"
	"aether/internal/host/spawn"
	"aether/sandbox"
)

// mapTime bounds how long a child waits for its ids.
const mapTime = 10 * time.Second

// Host is this program's ability to launch others.
type Host struct {
	// Single says that user namespaces have one id, the caller's.
	Single bool

	dir    string // what every program covers by a stage of its own
	thread *spawn.Thread
	named  bool              // the thread can act in the name of another and keep its rights
	ranges *idrange.Registry // of ids; nil with a single id
}

// covers are directories that hosts have and that no program of theirs needs to
// start sandboxes. Everybody can pass through them, unlike this program's own.
var covers = []string{"/mnt", "/media", "/srv", "/opt", "/dev/shm"}

func coverable() (string, error) {
	for _, dir := range covers {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			return dir, nil
		}
	}
	return "", &sandbox.Error{Class: sandbox.Unavailable, Op: "launch", Reason: fmt.Sprintf("none of %q is a directory to mount on", covers), Remedy: "make /mnt"}
}

// Open makes a host. In dir it tells other programs which ids it uses where /run cannot
// be written.
func Open(dir string) (h *Host, err error) {
	h = &Host{Single: os.Geteuid() != 0}
	if h.dir, err = coverable(); err != nil {
		return nil, err
	}
	if h.thread, err = spawn.NewThread(func() error { h.named = !h.Single && idrange.KeepRights(); return nil }); err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	if h.Single {
		return h, nil
	}
	if h.ranges, err = idrange.Open(dir); err != nil {
		h.thread.Close()
		return nil, fmt.Errorf("launch: %w", err)
	}
	// That this kernel has user namespaces with ids is known by having one.
	id, err := h.claim()
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	id.closeNamespace()
	return h, h.release(id)
}

// Close ends all programs that were started and still live.
func (h *Host) Close() error {
	h.thread.Close()
	if h.ranges == nil {
		return nil
	}
	return h.ranges.Close()
}

// start clones on the thread that lives as long as the host: parent-death signals
// follow the thread.
func (h *Host) start(s *spawn.Script, id identity, flags uint64, cgroup int) (started spawn.Started, err error) {
	start := func() (err error) {
		started, err = s.Start(flags, cgroup)
		return err
	}
	err = h.thread.Do(func() error {
		if h.named && id.numbers != 0 {
			return idrange.InNameOf(id.numbers.Owner(), start)
		}
		return start()
	})
	return started, err
}
