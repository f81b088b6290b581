package checkpoint

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAskingInAnotherNetwork: whichever thread goes to another's net namespace to ask there, of
// which the first of this program is one, is back then.
func TestAskingInAnotherNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("net namespaces are root's to make")
	}
	other := exec.Command("unshare", "--net", "sh", "-c", "echo there; exec sleep 1000")
	out, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = other.Process.Kill() // the wait tells
		_ = other.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	home, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 100 {
				fd, err := diagSocket(other.Process.Pid)
				if err != nil {
					t.Error(err)
					return
				}
				unix.Close(fd)
			}
		})
	}
	work.Wait()
	threads, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil || len(threads) == 0 {
		t.Fatal(threads, err)
	}
	for _, name := range append(threads, "/proc/self/ns/net") {
		// One that has ended meanwhile is nowhere.
		if at, err := os.Readlink(name); err == nil && at != home {
			t.Errorf("%s is %s, and not %s", name, at, home)
		}
	}
	if at, err := os.Readlink("/proc/" + strconv.Itoa(other.Process.Pid) + "/ns/net"); err != nil || at == home {
		t.Errorf("the other is in %s, %v", at, err)
	}
}
