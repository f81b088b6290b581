package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var (
	one    = []byte("1")
	zero   = []byte("0")
	frozen = []byte("FROZEN")
	thawed = []byte("THAWED")
)

// kill sends SIGKILL to every process in and below the group. It returns when
// all of them have it pending, not when they are gone.
func (n node) kill(ctx context.Context) error {
	err := n.write("cgroup.kill", one)
	if errors.Is(err, unix.ENOENT) {
		return n.killEach(ctx)
	}
	return err
}

const (
	killRounds = 200
	killPause  = time.Millisecond
)

// killEach is for kernels that cannot kill a group at once (before 5.14, and
// version 1). Frozen processes cannot fork away from the list of them; where
// freezing fails or is not offered, rounds are made until the list has nobody new:
// those that are dying fork no more, and may take their time.
func (n node) killEach(ctx context.Context) error {
	killed := map[int]bool{}
	for range killRounds {
		freezeErr := n.freeze(ctx)
		found, err := n.signalAll(killed)
		thawErr := n.thaw()
		if err != nil || thawErr != nil {
			return errors.Join(err, thawErr)
		}
		if found == 0 || freezeErr == nil {
			return nil
		}
		time.Sleep(killPause)
	}
	return fmt.Errorf("processes in %s are started faster than they are killed", n.name)
}

// signalAll kills the processes of the group and of those below it, and counts
// those that it had not killed before.
func (n node) signalAll(killed map[int]bool) (found int, err error) {
	pids, err := n.processes()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
			return 0, fmt.Errorf("kill %d: %w", pid, err)
		}
		if !killed[pid] {
			killed[pid] = true
			found++
		}
	}
	below, err := n.children()
	if err != nil {
		return 0, absent(err)
	}
	for _, child := range below {
		more, err := child.signalAll(killed)
		if err != nil {
			return 0, err
		}
		found += more
	}
	return found, nil
}

// maxProcesses bounds the list of a group's processes: the kernel's largest
// number of processes, at eight bytes a line.
const maxProcesses = (4 << 20) * 8

// processes lists the members that this process can see; those of pid
// namespaces beside ours are shown as 0 and cannot be signalled.
func (n node) processes() ([]int, error) {
	fd, err := n.open("cgroup.procs", unix.O_RDONLY)
	if err != nil {
		return nil, absent(err)
	}
	file := os.NewFile(uintptr(fd), n.name)
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxProcesses))
	if err != nil {
		return nil, absent(err)
	}
	var pids []int
	for line := range strings.Lines(string(text)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 1 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// absent forgives a group that is gone: nothing is left to do there.
func absent(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
