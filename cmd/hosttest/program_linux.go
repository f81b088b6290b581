package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"aether/sandbox"
)

// packagesOf says what to install for a program that is missing.
var packagesOf = map[string]string{"debootstrap": "debootstrap", "mke2fs": "e2fsprogs", "tar": "tar", "chroot": "coreutils"}

// need finds a program of the host's, or says what to install.
func need(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	from := packagesOf[program]
	for _, a := range architectures {
		if a.emulator == program {
			from = a.from
		}
	}
	return "", &sandbox.Error{Class: sandbox.Unavailable, Op: "hosttest", Reason: program + " is not installed", Remedy: "as root: apt-get install " + from, Err: err}
}

// runAlone runs a program of the host's that works on a root file system: in
// namespaces of its own, so that neither a mount nor a process of it is left,
// however it ends or we do.
func runAlone(ctx context.Context, program string, args ...string) error {
	path, err := need(program)
	if err != nil {
		return err
	}
	// The program is to end with the thread that starts it, and so with us.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", "DPKG_FORCE=unsafe-io,confold")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, lastLines(out.String(), 20))
	}
	return nil
}

// lastLines is the end of a text.
func lastLines(text string, most int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
