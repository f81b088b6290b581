package proctree

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"aether/internal/bounded"
)

// maxEnvironment bounds what is read of an environment: no process is started with more.
const maxEnvironment = 8 << 20

const (
	// killRounds bounds the race with processes that fork while they are hunted.
	killRounds = 100
	// dieTime is how long those may take to end that were killed: a busy host has them
	// wait for their turn, and a disk for itself.
	dieTime = time.Minute
)

// Mark is an environment variable, with its value, that no other process has.
type Mark string

// NewMark makes a mark.
func NewMark() Mark { return Mark("AETHER_PROCESS=" + rand.Text()) }

// Add puts the mark into an environment, which it does not change.
func (m Mark) Add(env []string) []string { return append(env[:len(env):len(env)], string(m)) }

// Kill kills the group of the process pid and everything that carries the mark,
// until a look at all processes finds none any more.
func (m Mark) Kill(pid int) error {
	if err := kill(-pid); err != nil {
		return err
	}
	killed := map[int]bool{}
	for rounds, end := 0, time.Now().Add(dieTime); rounds < killRounds; time.Sleep(time.Millisecond) {
		found, err := m.processes()
		if err != nil || len(found) == 0 {
			return err
		}
		if slices.ContainsFunc(found, func(pid int) bool { return !killed[pid] }) {
			rounds++
		} else if time.Now().After(end) {
			return fmt.Errorf("processes with %s do not end", m)
		}
		for _, pid := range found {
			if err := kill(pid); err != nil {
				return err
			}
			killed[pid] = true
		}
	}
	return fmt.Errorf("processes with %s keep appearing", m)
}

func kill(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return os.NewSyscallError("kill", err)
	}
	return nil
}

// processes lists the living ones that carry the mark. A zombie's environment is
// empty, so it does not count.
func (m Mark) processes() ([]int, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		// A process may declare all of its memory to be its environment.
		env, err := bounded.ReadFile("/proc/"+d.Name()+"/environ", maxEnvironment)
		var long *bounded.TooLong
		if (err == nil || errors.As(err, &long)) && strings.Contains("\x00"+string(env), "\x00"+string(m)+"\x00") {
			found = append(found, pid)
		}
	}
	return found, nil
}
