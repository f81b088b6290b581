package launch

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"aether/internal/host/idrange"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// identity is who a program's processes are outside. Its zero value is for an ordinary
// user's, who are that user, and for programs without a Tree, who are this program's.
type identity struct {
	numbers idrange.Range
	userns  *os.File // by which files are shown with the ids inside
}

// claim gives ids that no other living sandbox has.
func (h *Host) claim() (id identity, err error) {
	if h.Single {
		return identity{}, nil
	}
	if id.numbers, err = h.ranges.Claim(); err != nil {
		return identity{}, err
	}
	if id.userns, err = h.mappedNamespace(id); err != nil {
		return identity{}, errors.Join(fmt.Errorf("make a user namespace: %w", err), h.release(id))
	}
	return id, nil
}

func (h *Host) release(id identity) error {
	if id.numbers == 0 {
		return nil
	}
	return h.ranges.Release(id.numbers)
}

// closeNamespace gives up what only mounts that are to be made need.
func (id identity) closeNamespace() {
	if id.userns != nil {
		id.userns.Close()
	}
}

// mappedNamespace makes a user namespace in which nothing runs: it is what id-mapped
// mounts refer to.
func (h *Host) mappedNamespace(id identity) (file *os.File, err error) {
	s, err := spawn.NewScript(0)
	if err != nil {
		return nil, err
	}
	seen := s.Word()
	s.Wait(seen, mapTime)
	s.Exit()
	started, err := h.start(s, id, unix.CLONE_NEWUSER, -1)
	if err != nil {
		return nil, errors.Join(err, s.Free())
	}
	if err = h.writeMaps(started.Pid(), id); err == nil {
		file, err = os.Open(fmt.Sprintf("/proc/%d/ns/user", started.Pid()))
	}
	seen.Set()
	_, ended := started.Process().Wait()
	return file, errors.Join(err, ended, started.Done())
}

// Process is a program that was started.
type Process struct {
	*spawn.Process
	freed sync.Once
	free  func() error
}

// Wait waits for the end, after which nothing has the program's ids any more. It may be
// called by many.
func (p *Process) Wait() (spawn.Status, error) {
	status, err := p.Process.Wait()
	if err == nil {
		p.freed.Do(func() { err = p.free() })
	}
	return status, err
}

// writeMaps gives a child in a new user namespace its ids. The kernel lets an ordinary
// user's program write to the files of its own children if the program does not hide.
func (h *Host) writeMaps(pid int, id identity) error {
	dir := "/proc/" + strconv.Itoa(pid)
	if h.Single {
		return spawn.Visible(func() error {
			if err := os.WriteFile(dir+"/setgroups", []byte("deny"), 0); err != nil {
				return err
			}
			return writeMaps(dir, fmt.Sprintf("0 %d 1\n", os.Geteuid()), fmt.Sprintf("0 %d 1\n", os.Getegid()))
		})
	}
	line := fmt.Sprintf("0 %d %d\n", id.numbers.First(), idrange.Count)
	return writeMaps(dir, line, line)
}

func writeMaps(dir, users, groups string) error {
	if err := os.WriteFile(dir+"/uid_map", []byte(users), 0); err != nil {
		return err
	}
	return os.WriteFile(dir+"/gid_map", []byte(groups), 0)
}
