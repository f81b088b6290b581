package drivertest

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"aether/driver/drivertest/leaktest"
)

// census is what this program and its driver hold of the host.
type census struct {
	leaktest.Census
	devices []string // of the network
	left    []string // as the driver's own system says
}

func (c Config) census(t testing.TB, dir string) census {
	t.Helper()
	return census{leaktest.Take(t, ownProcesses(t), dir), netDevices(t), c.held(t)}
}

// grown lists what there is more of than before.
func (now census) grown(before census) (list []string) {
	return slices.Concat(now.Grown(before.Census), leaktest.More("network devices", before.devices, now.devices),
		leaktest.More("left", before.left, now.left))
}

// forgetFiles has all files count that are there now.
func (now *census) forgetFiles(dir string) { now.Files = leaktest.Files(dir) }

// markFile has the mark of this process.
const markFile = "/proc/self/oom_score_adj"

// markSelf marks all processes that this one will start, for the test's time. The mark
// of the service inside a sandbox stays if it is over 500.
func markSelf(t *testing.T) {
	t.Helper()
	was, err := os.ReadFile(markFile)
	if err == nil {
		err = os.WriteFile(markFile, []byte(strconv.Itoa(leaktest.FreeMarks(t, 550, 600, 1))), 0)
	}
	if os.IsPermission(err) {
		t.Skip("the kernel does not let an ordinary user's program that cannot be dumped mark its processes")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A program that has become undumpable meanwhile keeps its mark.
		if err := os.WriteFile(markFile, was, 0); err != nil && !os.IsPermission(err) {
			t.Error(err)
		}
	})
}

// ownProcesses are those below this one, zombies included, and the living ones
// with its mark: their parent may have ended before them.
func ownProcesses(t testing.TB) []leaktest.Process {
	t.Helper()
	found := leaktest.Descendants(t, os.Getpid())
	self, _ := leaktest.Find(os.Getpid())
	if mark, err := strconv.Atoi(self.Mark); err != nil || mark < 550 {
		return found // not marked
	}
	for _, p := range leaktest.Processes(t) {
		if p.Mark == self.Mark && p.PID != self.PID && !p.Ended() && !slices.Contains(found, p) {
			found = append(found, p)
		}
	}
	return found
}

func netDevices(t testing.TB) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
