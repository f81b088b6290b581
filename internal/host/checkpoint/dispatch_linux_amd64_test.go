package checkpoint

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"aether/internal/host/confine"
	"aether/internal/host/sysinfo"
	"aether/sandbox"
)

// dispatcher has the C library make system calls, and what lies above it: the vDSO makes
// them where the clock is not to be read without. Any other one, such as a parasite's, is
// a signal that ends it.
const dispatcher = `
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
start = min(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if "libc.so" in line or "/libc-" in line)
selector = ctypes.c_byte(0)
if libc.prctl(59, 1, ctypes.c_ulong(start), ctypes.c_ulong((1 << 47) - start), ctypes.byref(selector)): sys.exit("no user dispatch")
selector.value = 1
print("primed", flush=True)
for line in sys.stdin: print("lives", flush=True)
`

// TestUserDispatchIsRefused reads a process that no filter keeps from having its system
// calls dispatched: it is refused before anything is done to it. Cells have no such
// processes.
func TestUserDispatchIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can look at every process")
	}
	release, err := sysinfo.Release()
	if err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		t.Fatalf("%s: %v", release, err)
	}
	if major < 6 || major == 6 && minor < 4 {
		t.Skipf("Linux %s does not tell who dispatches; cells may not", release)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	cmd := exec.Command(python, "-c", dispatcher)
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // whether it lives is asked below
	defer in.Close()
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil {
		_ = cmd.Wait() // all that it said is there then
		if strings.TrimSpace(said.String()) == "no user dispatch" {
			t.Skip("the kernel has no user dispatch")
		}
		t.Fatalf("%q, %v: %s", line, err, said.String())
	}
	refusal := readOnThread(cmd.Process.Pid)
	if sandbox.ClassOf(refusal) != sandbox.Conflict || !strings.Contains(refusal.Error(), "dispatch") {
		t.Errorf("it is read, and says %v", refusal)
	}
	fmt.Fprintln(in)
	if line, err := lines.ReadString('\n'); err != nil && !errors.Is(err, io.EOF) || line != "lives\n" {
		t.Errorf("the process says %q, %v", line, err)
	}
}

// readOnThread stops a process, reads its state and lets it go.
func readOnThread(pid int) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and ends with its thread, which lets go of all that it traces
		p, err := StopProcess(pid)
		if err == nil {
			_, err = p.ReadState(ReadOptions{Filters: confine.Filters, Meanwhile: noop, Done: func() {}})
			err = errors.Join(err, p.Resume())
		}
		result <- err
	}()
	return <-result
}
