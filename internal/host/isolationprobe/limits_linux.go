package isolationprobe

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"aether/internal/host/coredump"

	"golang.org/x/sys/unix"
)

// mostFiles is how many open files a process may have at most: what the kernel itself
// allows by default.
const mostFiles = 1 << 20

var limitProbes = []probe{
	{"limit-files", func(*looker) Sighting { return limited(unix.RLIMIT_NOFILE, mostFiles, "open files") }},
	{"limit-core", func(*looker) Sighting { return limited(unix.RLIMIT_CORE, coredump.Limit, "bytes of a core dump") }},
	{"limit-locked-memory", func(*looker) Sighting { return limited(unix.RLIMIT_MEMLOCK, 1<<30, "bytes of locked memory") }},
}

// limited is open if a process may have more than so much.
func limited(resource int, most uint64, what string) Sighting {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return unknown("%v", err)
	}
	if l.Max == unix.RLIM_INFINITY {
		return open("any number of %s", what)
	}
	return whether(l.Max > most, fmt.Sprintf("%d %s", l.Max, what))
}

const step = 4 << 20

// takeMemory takes so many bytes, and touches all of them.
func takeMemory(most int64, out io.Writer) error {
	// Whoever is out of memory should end this program first.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		fmt.Fprintln(os.Stderr, err) // it may be the one all the same
	}
	for have := int64(0); have < most; {
		block, err := unix.Mmap(-1, 0, step, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		have += step
		if _, err := fmt.Fprintln(out, have); err != nil {
			return err
		}
	}
	return nil
}

// takeProcesses starts so many, which do nothing and end with this one.
func takeProcesses(most int64, out io.Writer) error {
	hold, held, err := os.Pipe()
	if err != nil {
		return err
	}
	defer held.Close()
	for n := int64(1); n <= most; n++ {
		cmd := exec.Command(self(), ModeWait)
		cmd.Stdin, cmd.SysProcAttr = hold, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return cause(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		if _, err := fmt.Fprintln(out, n); err != nil {
			return err
		}
	}
	return nil
}

// takeDisk writes so many bytes to a file.
func takeDisk(most int64, out io.Writer) error {
	name := filepath.Join(os.TempDir(), "aether-probe-disk")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(name)
	defer f.Close()
	block := make([]byte, 1<<20)
	for have := int64(0); have < most; {
		n, err := f.Write(block)
		have += int64(n)
		if err != nil {
			return cause(err)
		}
		if _, err := fmt.Fprintln(out, have); err != nil {
			return err
		}
	}
	return nil
}

// cause is what the kernel said, without the path that it said it about.
func cause(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
