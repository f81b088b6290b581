package drivertest

import (
	"bufio"
	"bytes"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ordinaryID is a user that owns nothing on any host.
const ordinaryID = 0x6ffe0001

// AsOrdinaryUser runs tests of this very binary, chosen as by -run, once more
// without the rights of root, and logs what was skipped there. Variables of the
// form NAME=value are added to its environment.
func AsOrdinaryUser(t *testing.T, run string, env ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("these tests run as an ordinary user already")
	}
	cmd := osexec.Command(ownedBinary(t), "-test.v", "-test.count=1", "-test.timeout=4m", "-test.run="+run)
	cmd.Dir = filepath.Dir(cmd.Path)
	cmd.Env = append(append(os.Environ(), "TMPDIR="+cmd.Dir, "HOME="+cmd.Dir), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}}
	out, err := cmd.CombinedOutput()
	passed, skips := outcomes(out)
	if err != nil || passed == 0 {
		t.Errorf("%v, %d tests passed:\n%s", err, passed, out)
	}
	t.Logf("%d tests passed as an ordinary user; skipped:\n%s", passed, strings.Join(skips, "\n"))
}

// ownedBinary is a copy of this very program in a directory of the ordinary
// user's own: the one that go test made is nobody else's to execute.
func ownedBinary(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "aether-ordinary-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	name := filepath.Join(dir, "driver.test")
	for _, step := range []func() error{
		func() error { return copyFile(name, "/proc/self/exe") },
		func() error { return os.Chmod(dir, 0o711) },
		func() error { return os.Chown(dir, ordinaryID, ordinaryID) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

func copyFile(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if closed := target.Close(); err == nil {
		err = closed
	}
	return err
}

// outcomes reads what a run of tests printed.
func outcomes(out []byte) (passed int, skips []string) {
	for scan := bufio.NewScanner(bytes.NewReader(out)); scan.Scan(); {
		line := strings.TrimSpace(scan.Text())
		if name, ok := strings.CutPrefix(line, "--- SKIP: "); ok {
			skips = append(skips, name)
		}
		if strings.HasPrefix(line, "--- PASS: ") {
			passed++
		}
	}
	return passed, skips
}
