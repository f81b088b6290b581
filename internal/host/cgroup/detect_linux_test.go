package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"aether/sandbox"
)

// fakeTree makes the control files of version 2 groups in plain directories.
func fakeTree(t *testing.T, groups map[string]string) (root, mountinfo string) {
	t.Helper()
	root = t.TempDir()
	for group, procs := range groups {
		dir := filepath.Join(root, group)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{"cgroup.procs": procs, "cgroup.subtree_control": "", "cgroup.controllers": "cpuset cpu io memory pids\n"}
		if group != "/" {
			files["cgroup.type"] = "domain\n"
		}
		for name, text := range files {
			put(t, filepath.Join(dir, name), text)
		}
	}
	return root, fmt.Sprintf("41 31 0:38 / %s rw,relatime - cgroup2 cgroup2 rw\n", root)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDetectUnified(t *testing.T) {
	other := strconv.Itoa(os.Getppid()) + "\n"
	me := strconv.Itoa(os.Getpid()) + "\n"
	child := exec.Command("/bin/sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		err := child.Process.Kill()
		_ = child.Wait() // killed is what it is to be
		if err != nil {
			t.Error(err)
		}
	}()
	ours := me + strconv.Itoa(child.Process.Pid) + "\n"
	for name, c := range map[string]struct {
		groups    map[string]string
		own, base string
		crowded   bool
		holds     Controller
	}{
		"the real root":            {map[string]string{"/": "1\n2\n"}, "/", "/", false, limiting},
		"alone in a scope":         {map[string]string{"/": "1\n", "/a": "", "/a/scope": me}, "/a/scope", "/a/scope", true, limiting},
		"alone with a child":       {map[string]string{"/": "1\n", "/a": "", "/a/scope": ours}, "/a/scope", "/a/scope", true, limiting},
		"a parent beside":          {map[string]string{"/": "1\n", "/a": "", "/a/scope": other + ours}, "/a/scope", "/a", false, limiting},
		"who has no number here":   {map[string]string{"/": "1\n", "/a": "", "/a/scope": "0\n" + me}, "/a/scope", "/a", false, limiting},
		"a shell beside":           {map[string]string{"/": "1\n", "/a": "", "/a/scope": other + me}, "/a/scope", "/a", false, limiting},
		"crowded ancestors":        {map[string]string{"/": "1\n", "/a": other, "/a/s": other}, "/a/s", "/", false, limiting},
		"a group without any":      {map[string]string{"/": "1\n", "/a": ""}, "/a", "/a", false, limiting},
		"the root of a namespace":  {map[string]string{"/ns": other + me}, "", "", false, 0},
		"only us in the namespace": {map[string]string{"/ns": me}, "", "", true, limiting},
	} {
		t.Run(name, func(t *testing.T) {
			root, mounts := fakeTree(t, c.groups)
			if _, ok := c.groups["/ns"]; ok {
				mounts = strings.Replace(mounts, root, root+"/ns", 1)
				root += "/ns"
			}
			h := detect(mounts, "0::/"+strings.TrimPrefix(c.own, "/")+"\n")
			if h.Layout != V2 || h.Holds() != c.holds || len(h.trees) != 1 {
				t.Fatalf("%+v", h)
			}
			if got, want := h.trees[0].base, filepath.Join(root, c.base); got != want || h.trees[0].crowded != c.crowded {
				t.Errorf("%s crowded %v, want %s", got, h.trees[0].crowded, want)
			}
			if err := h.Enforces(Limits{Pids: 1}); c.holds == 0 {
				wantUnavailable(t, err, "limits.processes", "share the group")
			}
		})
	}
}

func wantUnavailable(t *testing.T, err error, field, reason string) {
	t.Helper()
	e, ok := err.(*sandbox.Error)
	if !ok || e.Class != sandbox.Unavailable || e.Field != field || e.Remedy == "" || !strings.Contains(e.Reason, reason) {
		t.Errorf("got %#v, want unavailable %s because %q, with a remedy", err, field, reason)
	}
}

func TestDetectWithoutDelegatedController(t *testing.T) {
	root, mounts := fakeTree(t, map[string]string{"/": ""})
	put(t, filepath.Join(root, "cgroup.controllers"), "memory pids\n")
	h := detect(mounts, "0::/\n")
	if h.Holds() != Memory|Pids {
		t.Errorf("holds %v", h.Holds())
	}
	wantUnavailable(t, h.Enforces(Limits{CPUs: 1}), "limits.cpus", "not delegated")
}

// TestDetectAboveASliceThatLacksAController: as root on a fresh host, systemd's
// slices have no controller of processors, and the root has.
func TestDetectAboveASliceThatLacksAController(t *testing.T) {
	root, mounts := fakeTree(t, map[string]string{"/": "1\n", "/slice": "", "/slice/service": strconv.Itoa(os.Getppid()) + "\n", "/other": "", "/other/deep": ""})
	for _, group := range []string{"/slice", "/slice/service", "/other/deep"} {
		put(t, filepath.Join(root, group, "cgroup.controllers"), "memory pids\n")
	}
	for own, want := range map[string]string{"/slice/service": "/", "/other/deep": "/other"} {
		h := detect(mounts, "0::"+own+"\n")
		if got := h.trees[0]; got.base != filepath.Join(root, want) || h.Holds() != limiting || got.crowded {
			t.Errorf("from %s: %+v", own, got)
		}
	}
	// A parent that is somebody else's cannot be used.
	if err := os.Remove(filepath.Join(root, "other", "cgroup.subtree_control")); err != nil {
		t.Fatal(err)
	}
	if h := detect(mounts, "0::/other/deep\n"); h.trees[0].base != filepath.Join(root, "other/deep") || h.Holds() != Memory|Pids {
		t.Errorf("below a foreign group: %+v", h.trees[0])
	}
}

func TestDetectNothing(t *testing.T) {
	h := detect("22 27 0:21 / /proc rw,relatime - proc proc rw\n", "")
	if h.Layout != NoLayout {
		t.Errorf("layout %v", h.Layout)
	}
	wantUnavailable(t, h.Enforces(Limits{Memory: 1 << 30}), "limits.memory", "no cgroup file system")
	if err := h.Enforces(Limits{}); err != nil {
		t.Errorf("no limits at all: %v", err)
	}
	if _, err := h.Own(t.TempDir()); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("own: %v", err)
	}
}

// An ordinary user in groups of root's learns why, and what to do.
func TestDetectAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The program itself may lie where that user cannot read.
	self := filepath.Join(t.TempDir(), "test")
	if err := exec.Command("cp", program, self).Run(); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(self); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(self)
	cmd.Env = []string{roleVariable + "=detect"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), "unavailable limits.memory: this user may not make groups in") {
		t.Errorf("got %s", out)
	}
}

// say prints why memory cannot be limited.
func say([]string) error {
	h, err := Detect()
	if err != nil {
		return err
	}
	e, ok := h.Enforces(Limits{Memory: 1 << 30}).(*sandbox.Error)
	if !ok {
		return fmt.Errorf("no typed reason: %v", e)
	}
	fmt.Printf("%v %s: %s (%s)\n", e.Class, e.Field, e.Reason, e.Remedy)
	return nil
}
