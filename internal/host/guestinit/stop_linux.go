package guestinit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// StopOthers stops every process of this pid namespace but this one and the first, for a
// container, whose cgroup is not its own to freeze; resume lets those go on that were not
// stopped before.
func StopOthers(ctx context.Context) (resume func() error, err error) {
	before, err := stopped()
	if err != nil {
		return nil, err
	}
	if err := unix.Kill(-1, unix.SIGSTOP); err != nil && err != unix.ESRCH {
		return nil, os.NewSyscallError("kill", err)
	}
	resume = func() error { return resumeBut(before) }
	if err := awaitStopped(ctx); err != nil {
		return nil, errors.Join(err, resume())
	}
	return resume, nil
}

// processes lists the other ones of this pid namespace.
func processes() (list []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != 1 && pid != os.Getpid() {
			list = append(list, pid)
		}
	}
	return list, nil
}

// stopped lists those that are stopped.
func stopped() (list []int, err error) {
	pids, err := processes()
	for _, pid := range pids {
		if states(pid) == "T" {
			list = append(list, pid)
		}
	}
	return list, err
}

// states are those of a process's threads, each once: letters as ps has them. One that
// has ended has none.
func states(pid int) string {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // fails for a bad pattern only
	var found []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		// The name of a program may have any characters, also parentheses.
		if end := strings.LastIndex(string(text), ") "); end >= 0 && end+2 < len(text) && !slices.Contains(found, text[end+2]) {
			found = append(found, text[end+2])
		}
	}
	return string(found)
}

// uninterruptible is how long a thread may be in a call that no signal ends before it is
// taken for one that waits for another which is stopped, as the parent of a vfork does.
const uninterruptible = 500 * time.Millisecond

func awaitStopped(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, freezeTime)
	defer cancel()
	for began := time.Now(); ; {
		running := "RSD"
		if time.Since(began) > uninterruptible {
			running = "RS"
		}
		pids, err := processes()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(pids, func(pid int) bool { return strings.ContainsAny(states(pid), running) }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("guest: processes do not stop: %w", ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

func resumeBut(before []int) error {
	pids, err := processes()
	for _, pid := range pids {
		if slices.Contains(before, pid) {
			continue
		}
		if failed := unix.Kill(pid, unix.SIGCONT); failed != nil && failed != unix.ESRCH {
			err = errors.Join(err, os.NewSyscallError("kill", failed))
		}
	}
	return err
}
