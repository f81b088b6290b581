package coredump_test

import (
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"aether/internal/host/coredump"
)

const crash = "AETHER_TEST_CRASH"

func TestMain(m *testing.M) {
	switch os.Getenv(crash) {
	case "refused":
		if err := coredump.Refuse(); err != nil {
			println(err.Error())
			os.Exit(3)
		}
		fallthrough
	case "as usual":
		debug.SetTraceback("crash") // which ends in SIGABRT
		panic("on purpose")
	}
	os.Exit(m.Run())
}

// TestNoCoreDump: of a program that crashes, the kernel writes a core dump, or has one be
// read by the program of kernel.core_pattern, but of one that refuses.
func TestNoCoreDump(t *testing.T) {
	if dumps(t, "refused") {
		t.Error("there is a core dump of a program that refused")
	}
	if !dumps(t, "as usual") {
		t.Skip("this host writes no core dumps at all")
	}
}

// dumps says whether the kernel has dumped a program that crashed.
func dumps(t *testing.T, how string) bool {
	t.Helper()
	cmd := exec.Command("sh", "-c", `ulimit -S -c unlimited 2>/dev/null || ulimit -S -c "$(ulimit -H -c)"; exec "$0"`, os.Args[0])
	cmd.Env, cmd.Dir = append(os.Environ(), crash+"="+how), t.TempDir()
	out, err := cmd.CombinedOutput()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGABRT || !strings.Contains(string(out), "on purpose") {
		t.Fatalf("it did not crash: %v\n%s", err, out)
	}
	return status.CoreDump()
}

// TestRefuseTwice: the hard limit stays, so that children may have another.
func TestRefuseTwice(t *testing.T) {
	var before, after unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &before); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := coredump.Refuse(); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &after); err != nil {
		t.Fatal(err)
	}
	if after.Max != before.Max || after.Cur > 1 {
		t.Errorf("%+v became %+v", before, after)
	}
}
