package features

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"aether/internal/host/spawn"
	"aether/sandbox"
)

// The test program prints its survey when this is set.
const surveyVariable = "AETHER_KERNEL_TEST_SURVEY"

func TestMain(m *testing.M) {
	if os.Getenv(surveyVariable) == "" {
		os.Exit(m.Run())
	}
	if err := json.NewEncoder(os.Stdout).Encode(Survey(context.Background())); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestSurveyIsCompleteAndQuick(t *testing.T) {
	start := time.Now()
	found := Survey(t.Context())
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %v", took)
	}
	names := map[string]bool{}
	for _, f := range found {
		if f.Name == "" || f.Detail == "" || names[f.Name] || (f.State == OK) != (f.Cost == "") {
			t.Errorf("%+v", f)
		}
		names[f.Name] = true
	}
}

func TestSurveyLeavesNothing(t *testing.T) {
	before := open(t)
	for range 3 {
		Survey(t.Context())
	}
	if after := open(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	var status unix.WaitStatus
	if pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil); err != unix.ECHILD {
		t.Errorf("a child is left: %d, %v", pid, err)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "aether-survey-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func open(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// elsewhere is the survey of this program started with other rights; sh runs
// first, if given.
func elsewhere(t *testing.T, attr *syscall.SysProcAttr, sh string) map[string]Facility {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self := filepath.Join(dir, "survey")
	if out, err := exec.Command("cp", program, self).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command("/bin/sh", "-c", sh+"\nexec "+self)
	cmd.Env = append(os.Environ(), surveyVariable+"=1")
	cmd.SysProcAttr = attr
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []Facility
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	byName := map[string]Facility{}
	for _, f := range found {
		byName[f.Name] = f
	}
	return byName
}

// A user namespace in which no further ones may be made stands for a host that
// forbids them.
func TestForbiddenUserNamespacesNameTheSetting(t *testing.T) {
	if err := Userns(); err != nil {
		t.Skipf("the trial needs a user namespace itself: %v", err)
	}
	attr := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	f := elsewhere(t, attr, "echo 0 > /proc/sys/user/max_user_namespaces")["user namespaces"]
	if f.State != Missing || !strings.Contains(f.Remedy, "max_user_namespaces") {
		t.Errorf("%+v", f)
	}
}

func TestOrdinaryUserLearnsWhatItLacks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	found := elsewhere(t, attr, "")
	for _, name := range []string{"cgroups", "id-mapped mounts"} {
		if f := found[name]; f.State == OK || f.Remedy == "" {
			t.Errorf("%+v", f)
		}
	}
}

func TestTryReportsTheCallThatFails(t *testing.T) {
	err := try(0, func(s *spawn.Script) { mount(s, "none", "/nowhere-at-all", "tmpfs", 0, "") })
	var failure *spawn.Failure
	if !errors.As(err, &failure) || !strings.Contains(failure.Step, "/nowhere-at-all") {
		t.Errorf("got %v", err)
	}
}

func TestKVMSaysWhyNot(t *testing.T) {
	err := KVM(t.Context())
	if err == nil {
		return // it runs guests, which is an answer too
	}
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.Unavailable || e.Reason == "" || e.Remedy == "" {
		t.Errorf("%#v", err)
	}
}

// TestOldKernelsAreNamed: a kernel that nobody tests on is no reason not to try.
func TestOldKernelsAreNamed(t *testing.T) {
	for release, want := range map[string]State{
		"6.1.0-50-cloud-amd64": OK, "6.18.44": OK, "7.0.1": OK, "10.2-rc1": OK,
		"6.0.19": Limited, "5.15.0-91-generic": Limited, "4.19.0-gvisor": Limited, "none": Limited,
	} {
		got := judgeRelease(release)
		if got.State != want || (got.Remedy == "") != (want == OK) || got.Required {
			t.Errorf("%s: %+v", release, got)
		}
	}
}
