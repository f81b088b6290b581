package checkpoint

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestReadPagesFindsWhatScanningFinds compares the way of older kernels with that
// of newer ones, on a process that sleeps.
func TestReadPagesFindsWhatScanningFinds(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "echo; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()         //nolint:errcheck // killed
	defer cmd.Process.Kill() //nolint:errcheck // it may have ended
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitStopped(t, pid)
	areas, pagemap := mapsOf(t, pid)
	read, err := readPages(pagemap, areas, nil)
	if err != nil || len(read.own) == 0 || !slices.Equal(read.own, read.written) {
		t.Fatalf("%x, %x: %v", read.own, read.written, err)
	}
	found, err := findPages(pid, areas, nil)
	if err != nil {
		t.Fatal(err)
	}
	// What only reading finds are pages of zeros, which scanning leaves out.
	if missed := minus(found.own, read.own); len(missed) > 0 {
		t.Errorf("reading misses %x", missed)
	}
	if more := pages(minus(read.own, found.own)); more > 64 {
		t.Errorf("reading finds %d pages more", more)
	}
}

// awaitStopped waits until a process that was told to stop has.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, state, ok := strings.Cut(string(text), ") "); ok && strings.HasPrefix(state, "T") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d does not stop: %s", pid, text)
		}
	}
}

func mapsOf(t *testing.T, pid int) ([]VMA, *os.File) {
	t.Helper()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	areas, err := parseMaps(maps)
	if err != nil {
		t.Fatal(err)
	}
	pagemap, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pagemap.Close() })
	return areas, pagemap
}

// TestSoftDirty writes to some pages of its own, and gives some back.
func TestSoftDirty(t *testing.T) {
	if !softDirty() {
		t.Skip("this kernel does not note which pages are written (CONFIG_MEM_SOFT_DIRTY)")
	}
	const count = 16
	memory, err := unix.Mmap(-1, 0, count*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory) //nolint:errcheck // the test ends
	if err := unix.Madvise(memory, unix.MADV_NOHUGEPAGE); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		memory[i*pageSize] = byte(i) + 1
	}
	start := uint64(uintptr(unsafe.Pointer(&memory[0])))
	at := func(i uint64) run { return run{start + i*pageSize, start + (i+1)*pageSize} }
	area := []VMA{{Start: start, End: start + count*pageSize, Read: true, Write: true}}
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer pagemap.Close()
	before, err := readPages(pagemap, area, nil)
	if err != nil || pages(before.own) != count {
		t.Fatalf("%x: %v", before.own, err)
	}
	if err := clearSoftDirty(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	memory[3*pageSize] = 100
	memory[7*pageSize] = 100
	for _, i := range []int{5, 9} {
		if err := unix.Madvise(memory[i*pageSize:(i+1)*pageSize], unix.MADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
	}
	if memory[5*pageSize] != 0 { // read again, so that it is a page of zeros
		t.Fatal("a page that was given back is not empty")
	}
	now, err := readPages(pagemap, area, &before)
	if want := []run{at(3), at(5), at(7)}; err != nil || !slices.Equal(now.written, want) {
		t.Errorf("written are %x, not %x: %v", now.written, want, err)
	}
	if gone := minus(before.own, now.own); !slices.Equal(gone, []run{at(9)}) {
		t.Errorf("gone is %x, not %x", gone, at(9))
	}
}
