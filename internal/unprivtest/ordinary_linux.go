package unprivtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// ID is a user and a group that own nothing on any host.
const ID = 0x6ffe0001

// AsOrdinaryUser runs tests of this very binary once more as an ordinary user, in a
// directory of its own. The flags say which, as in "-test.run=^TestName$".
// Variables of the form NAME=value are added to its environment.
func AsOrdinaryUser(t *testing.T, flags []string, env ...string) {
	t.Helper()
	if !Privileged() {
		t.Skip("these tests run without the rights of root already")
	}
	again(t, fmt.Sprintf("user %d", ID), ID, flags, env, func(program string, flags []string) *exec.Cmd {
		cmd := exec.Command(program, flags...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ID, Gid: ID}}
		return cmd
	})
}

// Privileged says that these tests run as root with its rights.
func Privileged() bool { return os.Geteuid() == 0 && os.Getenv(withoutRightsVariable) == "" }

// again runs tests of this very binary once more, by the command that start makes.
func again(t *testing.T, who string, id int, flags, env []string, start func(program string, flags []string) *exec.Cmd) {
	t.Helper()
	program := ownedBinary(t, id)
	flags = append(flags, "-test.v", "-test.count=1", "-test.timeout="+timeLeft(t).String())
	out, err := run(func() *exec.Cmd { return start(program, flags) }, filepath.Dir(program), env)
	o := read(out)
	if err != nil || len(o.passed) == 0 {
		t.Errorf("as %s: %v\n%s", who, err, o.failure())
	}
	t.Logf("%d tests passed as %s; skipped:\n%s", len(o.passed), who, o.skips())
}

// run tries until the program is not being written any more: a child that
// another goroutine forked meanwhile holds the open file until it executes.
func run(start func() *exec.Cmd, dir string, env []string) (out []byte, err error) {
	for end := time.Now().Add(time.Minute); ; {
		cmd := start()
		cmd.Dir = dir
		cmd.Env = append(append(append(os.Environ(), "TMPDIR="+dir, "HOME="+dir), env...), cmd.Env...)
		if out, err = cmd.CombinedOutput(); !errors.Is(err, syscall.ETXTBSY) || time.Now().After(end) {
			return out, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// timeLeft has the tests end, and say where they hang, before those who wait for
// them do.
func timeLeft(t *testing.T) time.Duration {
	deadline, ok := t.Deadline()
	if !ok {
		return 0 // none
	}
	return max(time.Until(deadline)-10*time.Second, time.Second)
}

// ownedBinary is a copy of this very program in a directory of a user's own: the one
// that go test made is nobody else's to execute.
func ownedBinary(t *testing.T, id int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "aether-ordinary-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	name := filepath.Join(dir, "again.test")
	if err := errors.Join(copySelf(name), os.Chmod(dir, 0o711), os.Chown(dir, id, id)); err != nil {
		t.Fatal(err)
	}
	return name
}

func copySelf(to string) error {
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
