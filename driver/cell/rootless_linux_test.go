package cell_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ordinaryID is a user that owns nothing on any host.
const ordinaryID = 0x6ffe0001

// TestAgainAsOrdinaryUser runs the other tests once more without the rights of
// root.
func TestAgainAsOrdinaryUser(t *testing.T) {
	if ordinary() {
		t.Skip("these tests run as an ordinary user already")
	}
	cmd := exec.Command(ownedBinary(t), "-test.v", "-test.count=1", "-test.timeout=3m", "-test.skip=^TestAgainAsOrdinaryUser$")
	if testing.Short() {
		cmd.Args = append(cmd.Args, "-test.short")
	}
	cmd.Dir = filepath.Dir(cmd.Path)
	cmd.Env = append(os.Environ(), "TMPDIR="+cmd.Dir, "HOME="+cmd.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}}
	out, err := cmd.CombinedOutput()
	skips := report(t, out)
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	t.Logf("skipped as an ordinary user:\n%s", strings.Join(skips, "\n"))
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
	name := filepath.Join(dir, "cell.test")
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

// report gives what was skipped, with what the test said last, and wants tests
// to have passed.
func report(t *testing.T, out []byte) (skips []string) {
	t.Helper()
	passed, current, said := 0, "", map[string]string{}
	for scan := bufio.NewScanner(bytes.NewReader(out)); scan.Scan(); {
		line := strings.TrimSpace(scan.Text())
		if name, ok := strings.CutPrefix(line, "=== RUN   "); ok {
			current = name
		} else if name, ok := strings.CutPrefix(line, "--- SKIP: "); ok {
			name, _, _ = strings.Cut(name, " ")
			skips = append(skips, name+": "+said[name])
		} else if strings.HasPrefix(line, "--- PASS: ") {
			passed++
		} else if _, text, ok := strings.Cut(line, ": "); ok && strings.Contains(line, "_test.go:") {
			said[current] = text
		}
	}
	if passed == 0 {
		t.Error("no test has passed")
	}
	t.Logf("%d tests passed as an ordinary user", passed)
	return skips
}
