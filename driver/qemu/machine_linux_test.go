package qemu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aether/sandbox"
)

// machinesLeft lists the processes that this one has started as a QEMU.
func machinesLeft(t *testing.T) (pids []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // gone by now
		}
		head, tail, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(tail)
		if strings.Contains(head, "(qemu-system") && len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

var statusLine = regexp.MustCompile(`(?m)^(Uid|Gid|NoNewPrivs|Seccomp):\s*(\d+)`)

// QEMU is what a guest meets first when it breaks out: it must have little.
func TestQEMUIsConfined(t *testing.T) {
	d := driverWith(t, func(*Options) {})
	spec := testSpec()
	spec.Limits.MemoryBytes = leastMemory
	i, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Destroy(context.Background())
	m := i.(*instance).machine
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.process.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, line := range statusLine.FindAllStringSubmatch(string(text), -1) {
		got[line[1]], _ = strconv.Atoi(line[2])
	}
	if got["NoNewPrivs"] != 1 || got["Seccomp"] != 2 {
		t.Errorf("QEMU is not under its filter: %v", got)
	}
	if lowlyUser(m.engine.accel) != nil && (got["Uid"] < firstUser || got["Gid"] == 0) {
		t.Errorf("QEMU runs as %v", got)
	}
}

// Nothing that a caller says reaches QEMU's command line.
func TestArgumentsAreNumbersOnly(t *testing.T) {
	fds := inherited{monitor: 3, channel: 4, console: 5, disk: 6, kernel: 7, initramfs: 8, state: -1, memory: -1}
	boot := arguments(emulated(), hardwareOf{MemoryMiB: 128, CPUs: 2}, fds)
	for _, pair := range [][2]string{{"-m", "128M"}, {"-smp", "2"}, {"-kernel", "/proc/self/fd/7"}, {"-initrd", "/proc/self/fd/8"}} {
		if at := slices.Index(boot, pair[0]); at < 0 || boot[at+1] != pair[1] {
			t.Errorf("no %v in %v", pair, boot)
		}
	}
	fds.kernel, fds.initramfs, fds.state = -1, -1, 9
	restore := arguments(emulated(), hardwareOf{MemoryMiB: 128, CPUs: 2}, fds)
	if slices.Contains(restore, "-kernel") || !slices.Contains(restore, "fd:9") {
		t.Errorf("a restored machine boots: %v", restore)
	}
	fds.state, fds.memory = -1, 10
	follow := strings.Join(arguments(emulated(), hardwareOf{MemoryMiB: 128, CPUs: 2}, fds), " ")
	if !strings.Contains(follow, "mem-path=/proc/self/fd/10,share=off") || !strings.Contains(follow, "-incoming defer") {
		t.Errorf("a machine of a template writes to it: %v", follow)
	}
	fds.kernel, fds.initramfs, fds.disk = 7, 8, -1
	template := strings.Join(arguments(emulated(), hardwareOf{MemoryMiB: 128, CPUs: 2}, fds), " ")
	if !strings.Contains(template, "mem-path=/proc/self/fd/10,share=on") || !strings.Contains(template, "driver=null-co") || strings.Contains(template, "-incoming") {
		t.Errorf("a template has no memory to leave behind, or a disk: %v", template)
	}
}

func TestProcessors(t *testing.T) {
	for share, want := range map[float64]int{0: 1, 0.01: 1, 1: 1, 1.5: 2, 4: 4} {
		if got := processors(share); got != want {
			t.Errorf("%v: %d", share, got)
		}
	}
}

func TestTailIsHarmless(t *testing.T) {
	var out tail
	fmt.Fprint(&out, strings.Repeat("old\n", maxTail))
	fmt.Fprint(&out, "\x1b[2Jpanic: \x07no\r\n\r\n\x00init\n")
	got := out.String()
	if want := "old | old | old | old | [2Jpanic: no | init"; got != want {
		t.Errorf("got %q", got)
	}
	fmt.Fprint(&out, "[1.0] Kernel panic - not syncing\nregisters\n")
	if got := out.String(); got != "[1.0] Kernel panic - not syncing" {
		t.Errorf("got %q", got)
	}
	if len(out.text) > maxTail {
		t.Errorf("%d bytes are kept", len(out.text))
	}
}

func TestFit(t *testing.T) {
	e := &engine{accel: emulated()}
	has := e.manifest(hardwareOf{MemoryMiB: 512, CPUs: 2}, sandbox.Limits{CPUs: 1.5, Processes: 10})
	for _, c := range []struct {
		asked sandbox.Limits
		field string
		cpus  float64
	}{
		{sandbox.Limits{}, "", 1.5},
		{sandbox.Limits{CPUs: 1.2}, "", 1.2},
		{sandbox.Limits{MemoryBytes: 512 << 20, Processes: 10}, "", 1.5},
		{sandbox.Limits{MemoryBytes: 256 << 20}, "limits.memory", 0},
		{sandbox.Limits{Processes: 11}, "limits.processes", 0},
		{sandbox.Limits{DiskBytes: 1 << 20}, "limits.disk", 0},
		{sandbox.Limits{CPUs: 3}, "limits.cpus", 0},
	} {
		got, err := e.fit(has, c.asked)
		failure, _ := err.(*sandbox.Error)
		switch {
		case c.field == "" && (err != nil || got.CPUs != c.cpus):
			t.Errorf("%+v: %+v, %v", c.asked, got, err)
		case c.field != "" && (failure == nil || failure.Field != c.field):
			t.Errorf("%+v: %v", c.asked, err)
		}
	}
	has.Accel = "kvm"
	if _, err := e.fit(has, sandbox.Limits{}); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("another accelerator: %v", err)
	}
}

func TestManifestIsChecked(t *testing.T) {
	for text, class := range map[string]sandbox.Class{
		"":                            sandbox.Invalid,
		"{}":                          sandbox.Invalid,
		`{"version":1,"hardware":{}}`: sandbox.Invalid,
		`{"version":9,"hardware":{"memory_mib":1,"cpus":1}}`: sandbox.Invalid,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, manifestFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readManifest(dir); sandbox.ClassOf(err) != class {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := readManifest(t.TempDir()); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("no snapshot: %v", err)
	}
}

func TestForksOfDeadProgramsAreReaped(t *testing.T) {
	parent := t.TempDir()
	dead, lock, err := newFork(t.Context(), parent)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := reapWork(parent); n != 0 || err != nil {
		t.Fatalf("a living one: %d, %v", n, err)
	}
	if err := lock.Release(); err != nil { // as its holder's death does
		t.Fatal(err)
	}
	if err := os.WriteFile(dead+lockSuffix, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := reapWork(parent); n != 1 || err != nil {
		t.Fatalf("a dead one: %d, %v", n, err)
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
