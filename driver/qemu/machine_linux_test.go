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

	"aether/driver/vmm"
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

// onlyMachine is the one QEMU that this process has started.
func onlyMachine(t *testing.T) string {
	t.Helper()
	pids := machinesLeft(t)
	if len(pids) != 1 {
		t.Fatalf("machines: %v", pids)
	}
	return pids[0]
}

var statusLine = regexp.MustCompile(`(?m)^(Uid|Gid|NoNewPrivs|Seccomp):\s*(\d+)`)

// QEMU is what a guest meets first when it breaks out: it must have little.
func TestQEMUIsConfined(t *testing.T) {
	d := driverWith(t, func(*Options) {})
	spec := testSpec()
	spec.Limits.MemoryBytes = 128 << 20
	i, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Destroy(context.Background())
	text, err := os.ReadFile(fmt.Sprintf("/proc/%s/status", onlyMachine(t)))
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
	const firstUser = 0x70000000 // of those that monitors get
	if mayChooseUser(t, d) && (got["Uid"] < firstUser || got["Gid"] == 0) {
		t.Errorf("QEMU runs as %v", got)
	}
}

// mayChooseUser says that nothing on this host keeps QEMU from a user of its own.
func mayChooseUser(t *testing.T, d *vmm.Driver) bool {
	t.Helper()
	ids, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	asRoot := func(g sandbox.Gap) bool { return strings.Contains(g.Cost, "runs as root") }
	return os.Geteuid() == 0 && strings.Contains(string(ids), " 4294967295") && !slices.ContainsFunc(d.Probe(t.Context()).Gaps, asRoot)
}

// Nothing that a caller says reaches QEMU's command line.
func TestArgumentsAreNumbersOnly(t *testing.T) {
	hw := vmm.Hardware{MemoryMiB: 128, CPUs: 2, Emulated: true}
	has := vmm.Descriptors{vmm.Socket: 3, vmm.Port: 4, vmm.Disk: 6, vmm.Kernel: 7, vmm.Initramfs: 8}
	boot := arguments(hw, has)
	for _, pair := range [][2]string{{"-m", "128M"}, {"-smp", "2"}, {"-kernel", "/proc/self/fd/7"}, {"-initrd", "/proc/self/fd/8"}} {
		if at := slices.Index(boot, pair[0]); at < 0 || boot[at+1] != pair[1] {
			t.Errorf("no %v in %v", pair, boot)
		}
	}
	delete(has, vmm.Kernel)
	delete(has, vmm.Initramfs)
	restore := arguments(hw, has)
	if slices.Contains(restore, "-kernel") || !slices.Contains(restore, "-incoming") {
		t.Errorf("a restored machine boots: %v", restore)
	}
	has[vmm.Memory] = 10
	follow := strings.Join(arguments(hw, has), " ")
	if !strings.Contains(follow, "mem-path=/proc/self/fd/10,share=off") || !strings.Contains(follow, "-incoming defer") {
		t.Errorf("a machine of a template writes to it: %v", follow)
	}
	has[vmm.Kernel], has[vmm.Initramfs] = 7, 8
	delete(has, vmm.Disk)
	template := strings.Join(arguments(hw, has), " ")
	if !strings.Contains(template, "mem-path=/proc/self/fd/10,share=on") || !strings.Contains(template, "driver=null-co") || strings.Contains(template, "-incoming") {
		t.Errorf("a template has no memory to leave behind, or a disk: %v", template)
	}
	hw.Emulated = false
	if kvm := arguments(hw, has); !slices.Contains(kvm, "kvm") || !slices.Contains(kvm, "host") {
		t.Errorf("a machine with KVM is emulated: %v", kvm)
	}
}
