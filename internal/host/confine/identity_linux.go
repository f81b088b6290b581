package confine

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"aether/internal/host/idrange"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

const (
	// UserID is the id of the ordinary user inside a cell, and the only id there
	// when an ordinary user runs cells.
	UserID = 1000
	// nobodyID is shown for ids that a cell does not have.
	nobodyID = 65534
)

// Identity is how ids of cells correspond to ids of the host.
type Identity struct {
	// Single says that cells have one id, UserID, which is the caller's.
	Single bool
	uid    int
	gid    int
	base   int // the host's id of the cell's id 0, where a cell has many
}

func currentIdentity() Identity {
	uid, gid := os.Geteuid(), os.Getegid()
	return Identity{Single: uid != 0 || !idrange.Capable(unix.CAP_SYS_ADMIN) || !idrange.Capable(unix.CAP_SETUID), uid: uid, gid: gid}
}

// owner is the user in whose name the user namespace of the cell with these ids is made.
func (id Identity) owner() int { return id.idRange().Owner() }

func (id Identity) idRange() idrange.Range { return idrange.Range(id.base / idrange.Count) }

// claimIDs gives ids that no living cell has, or those of all cells if they are to share
// them. releaseIDs must follow.
func (h *Host) claimIDs() (Identity, error) {
	claim := func() (Identity, error) {
		r, err := h.ranges.Claim()
		return Identity{base: r.First()}, err
	}
	if !h.without[partRange] {
		return claim()
	}
	h.shared.once.Do(func() { h.shared.id, h.shared.err = claim() })
	return h.shared.id, h.shared.err
}

// sharedIDs are those of all cells, for tests of what is then shared.
type sharedIDs struct {
	once sync.Once
	id   Identity
	err  error
}

func (h *Host) releaseIDs(id Identity) error {
	if h.without[partRange] {
		return nil
	}
	return h.ranges.Release(id.idRange())
}

// isRoot says that processes of cells have the host's user 0, which is what a root
// without the rights to have others gives them.
func (id Identity) isRoot() bool { return id.Single && id.uid == 0 }

// ToHost gives the host's ids for ids of a cell.
func (id Identity) ToHost(uid, gid uint32) (int, int, error) {
	if !id.Single {
		if uid >= idrange.Count || gid >= idrange.Count {
			return 0, 0, sandbox.Invalidf("user", "the ids %d:%d are not below %d", uid, gid, idrange.Count)
		}
		return id.base + int(uid), id.base + int(gid), nil
	}
	if uid != UserID || gid != UserID {
		return 0, 0, &sandbox.Error{Class: sandbox.Unavailable, Field: "user",
			Reason: fmt.Sprintf("a cell run by an ordinary user has the ids %d:%d only, not %d:%d", UserID, UserID, uid, gid),
			Remedy: "run aether as root for other users inside"}
	}
	return id.uid, id.gid, nil
}

// FromHost gives the cell's ids for ids of the host; ids that the cell does not
// have are shown as nobody's.
func (id Identity) FromHost(uid, gid uint32) (uint32, uint32) {
	return id.fromHost(uid, id.uid), id.fromHost(gid, id.gid)
}

func (id Identity) fromHost(n uint32, own int) uint32 {
	switch {
	case id.Single && int(n) == own:
		return UserID
	case !id.Single && int(n) >= id.base && int(n) < id.base+idrange.Count:
		return n - uint32(id.base)
	}
	return nobodyID
}

// mapLine is the content of a uid_map or gid_map.
func (id Identity) mapLine(own int) string {
	if id.Single {
		return fmt.Sprintf("%d %d 1\n", UserID, own)
	}
	return fmt.Sprintf("0 %d %d\n", id.base, idrange.Count)
}

// writeMaps gives a child in a new user namespace its ids. proc is where this
// thread sees the host's /proc.
func (id Identity) writeMaps(proc string, pid int) error {
	dir := proc + "/" + strconv.Itoa(pid)
	for _, m := range []struct{ file, line string }{{"/uid_map", id.mapLine(id.uid)}, {"/gid_map", id.mapLine(id.gid)}} {
		if err := writeShort(dir+m.file, m.line); err != nil {
			return fmt.Errorf("write %s: %w", m.file[1:], err)
		}
	}
	return nil
}

func writeShort(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = syscall.Write(fd, []byte(text))
	return err
}
