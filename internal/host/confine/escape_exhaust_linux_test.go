package confine

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"aether/internal/host/cgroup"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// forkBomb starts processes until it cannot, or until there are 300, and says
// how many there were.
const forkBomb = `i=0; while [ $i -lt 300 ]; do sleep 60 & i=$((i+1)); echo $i; done`

// processesAreBounded by the resource limit alone.
func processesAreBounded(t *testing.T, s *scene) {
	skipUnlessBounded(t, s)
	cell := s.boot(t, func(c *Config) { c.Processes = 40 })
	// The answer is read by the shell itself: there is no process left to start.
	out, code := sh(t, cell, "("+forkBomb+") > /tmp/n 2>/dev/null; while read n; do last=$n; done < /tmp/n; echo $last")
	if n := number(t, out); n < 20 || n >= 40 || code != 0 {
		t.Errorf("300 processes with a limit of 40: %q and code %d", out, code)
	}
}

// threadsAreBounded likewise.
func threadsAreBounded(t *testing.T, s *scene) {
	skipUnlessBounded(t, s)
	f := s.facts
	f.Limit = 400
	for _, who := range s.whos() {
		cell := s.boot(t, func(c *Config) { c.Processes = 40 })
		out, status := s.run(t, cell, "threads", who, f)
		if n := strings.Count(out, "\n"); status.Code == 0 || !strings.Contains(out, "20\n") || strings.Contains(out, "\n40\n") {
			t.Errorf("%s: 400 threads with a limit of 40: %+v after %d lines", who.name, status, n)
		}
	}
}

// skipUnlessBounded skips what the kernel lets the host's user 0 do, whatever its
// resource limits: the driver refuses such limits, see TestProcessesAreBoundedOrRefused.
func skipUnlessBounded(t *testing.T, s *scene) {
	t.Helper()
	if !s.host.BoundsProcesses() {
		t.Skip("no resource limit bounds the processes of user 0")
	}
}

// diskIsBounded: bytes and files, and /dev/shm has no room of its own.
func diskIsBounded(t *testing.T, s *scene) {
	for _, who := range s.whos() {
		f := s.facts
		f.Limit = 64
		out, _ := s.run(t, s.boot(t, func(c *Config) { c.Upper = 8 << 20 }), "fill", who, f)
		var written, shared int
		var errno, sharedErrno string
		if _, err := fmt.Sscan(out, &written, &errno, &shared, &sharedErrno); err != nil {
			t.Fatalf("%s: %q: %v", who.name, out, err)
		}
		if written > 8 || errno != "ENOSPC" || sharedErrno != "ENOSPC" {
			t.Errorf("%s: 8 MiB of disk: %q", who.name, out)
		}
		f.Limit = 1 << 14
		s.stops(t, s.boot(t, func(c *Config) { c.Upper = 8 << 20 }), "inodes", who, f, "ENOSPC")
	}
}

// countedThings are what the kernel counts for the whole host or for the user
// outside: no cell may have a large part of it.
func countedThings(t *testing.T, s *scene) {
	var open unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &open); err != nil {
		t.Fatal(err)
	}
	for _, who := range s.whos() {
		for _, c := range []struct {
			role  string
			limit int
			errno string
		}{
			{"descriptors", int(min(open.Max, 1<<21)) + 1, "EMFILE"},
			{"terminals", sysctl(t, "kernel/pty/max") / 8, "ENOSPC"},
			{"watchers", sysctl(t, "fs/inotify/max_user_instances") / 2, "EMFILE"},
		} {
			f := s.facts
			f.Limit = c.limit
			s.stops(t, s.boot(t), c.role, who, f, c.errno)
		}
	}
}

// stops makes an exhausting attack that must be stopped before its limit.
func (s *scene) stops(t *testing.T, cell *Cell, role string, who who, f facts, want string) {
	t.Helper()
	out, status := s.run(t, cell, role, who, f)
	var count int
	var errno string
	if _, err := fmt.Sscan(out, &count, &errno); err != nil || count >= f.Limit || errno != want {
		t.Errorf("%s: %s: up to %d gave %q and %+v, not %s", who.name, role, f.Limit, out, status, want)
	}
}

func sysctl(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return number(t, strings.TrimSpace(string(text)))
}

// owner gives control groups, or skips where the host gives none.
func owner(t *testing.T) *cgroup.Owner {
	t.Helper()
	hierarchy, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	if err := hierarchy.Enforces(cgroup.Limits{Memory: 1 << 30, Pids: 1}); err != nil {
		t.Skipf("this host gives this user no groups: %v", err)
	}
	o, err := hierarchy.Own(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return o
}

// groupsBound memory and processes, and count what they stopped.
func groupsBound(t *testing.T, s *scene) {
	group, attach, err := limited(owner(t), "bound", cgroup.Limits{Memory: 64 << 20, Pids: 40})
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range s.whos() {
		cell := s.boot(t, func(c *Config) { c.Group = attach })
		f := s.facts
		f.Limit = 512
		if out, status := s.run(t, cell, "hog", who, f); status.Signal != syscall.SIGKILL {
			t.Errorf("%s: 512 MiB of 64: %+v %q", who.name, status, out)
		}
		if out, status := s.run(t, cell, "threads", who, f); status.Code == 0 || strings.Contains(out, "\n40\n") {
			t.Errorf("%s: 512 threads of 40: %+v", who.name, status)
		}
		s.untouched(t, cell)
	}
	if events, err := group.Events(); err != nil || events.OOMKills == 0 || events.PidsDenied == 0 {
		t.Errorf("events %+v: %v", events, err)
	}
}

// outOfMemoryStaysInside: the kernel kills what shares the memory of its victim,
// and a process that enters a cell shares this program's.
func outOfMemoryStaysInside(t *testing.T, s *scene) {
	owner(t)
	for name, memory := range map[string]int64{"full": 24 << 20, "least": sandbox.MinMemory} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			known, err := json.Marshal(facts{Limit: enteringTime, Memory: memory})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), attackVariable+"=keeper", factsVariable+"="+string(known), "TMPDIR="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("a cell without memory ended the program outside: %v\n%s", err, out)
				await(t, "its groups", func() bool { return reaped(t, dir) })
			}
		})
	}
}

// reaped removes the groups of a program that was killed. Its last children may
// hold its lock for a moment.
func reaped(t *testing.T, dir string) bool {
	t.Helper()
	n, err := cgroup.Reap(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}
