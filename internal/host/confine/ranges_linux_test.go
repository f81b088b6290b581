package confine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// TestCellsHaveIdsOfTheirOwn boots cells by several hosts at once, as several programs
// would, and wants no two living ones to have the same ids.
func TestCellsHaveIdsOfTheirOwn(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]string{}
	var group sync.WaitGroup
	for n := range 3 {
		h := openHost(t)
		if h.Identity.Single {
			t.Skip("an ordinary user has one id")
		}
		base, err := h.Prepare(hostTree(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { base.Close() })
		for i := range 4 {
			cell := bootFrom(t, base, Config{Upper: 16 << 20, Group: noGroup})
			group.Go(func() {
				out, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", cell.Pid()))
				mu.Lock()
				defer mu.Unlock()
				who := fmt.Sprintf("cell %d of host %d", i, n)
				if other := seen[string(out)]; err != nil || other != "" {
					t.Errorf("%s and %s have %q: %v", who, other, out, err)
				}
				seen[string(out)] = who
			})
		}
	}
	group.Wait()
}

// TestIdsAreUsedAgain: the ids of a cell that has ended are the next one's.
func TestIdsAreUsedAgain(t *testing.T) {
	h := openHost(t)
	if h.Identity.Single {
		t.Skip("an ordinary user has one id")
	}
	base, err := h.Prepare(hostTree(t))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	for range 5 {
		cell, err := base.Boot(Config{Upper: 16 << 20, Group: noGroup})
		if err != nil {
			t.Fatal(err)
		}
		endCell(t, cell)
		if _, err := cell.Wait(); err != nil { // once more, which gives nothing back twice
			t.Fatal(err)
		}
	}
	if len(h.ranges.own) != 1 || len(h.ranges.free) != 1 {
		t.Errorf("five cells, one after another, took %d ranges, of which %d are free", len(h.ranges.own), len(h.ranges.free))
	}
}

// TestOwnersAreInNoCell: whoever had the id of the owner of a cell had every right over it.
func TestOwnersAreInNoCell(t *testing.T) {
	seen := map[int]bool{}
	for number := firstRange; number <= lastRange; number++ {
		id := Identity{base: number * idCount}
		if owner := id.owner(); seen[owner] || owner >= firstRange*idCount || owner < ownerRange*idCount {
			t.Fatalf("the range %#x is owned by %#x", number, owner)
		}
		seen[id.owner()] = true
	}
}

// TestRangesRunOut takes all ids of the host there are, gives them back, and takes one.
func TestRangesRunOut(t *testing.T) {
	h := &Host{without: map[string]bool{}}
	dir := t.TempDir()
	registry, err := os.Create(dir + "/ids")
	if err != nil {
		t.Fatal(err)
	}
	r := &ranges{host: h, registry: registry, own: map[int64]bool{}, next: firstRange}
	defer registry.Close()
	var taken []Identity
	for {
		one, err := r.claim()
		if err != nil {
			if sandbox.ClassOf(err) != sandbox.Exhausted {
				t.Fatal(err)
			}
			break
		}
		taken = append(taken, one)
	}
	if len(taken) != lastRange-firstRange+1 {
		t.Errorf("there are %d ranges", len(taken))
	}
	for _, one := range taken {
		if err := r.release(one); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.own) != keptRanges {
		t.Errorf("%d ranges are kept", len(r.own))
	}
	if _, err := r.claim(); err != nil {
		t.Error(err)
	}
}

// TestIdsOfADeadProgramAreFree kills a program that has all ids of a registry.
func TestIdsOfADeadProgramAreFree(t *testing.T) {
	path := t.TempDir() + "/ids"
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), attackVariable+"=registrar", factsVariable+`={"File":"`+path+`"}`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, 5)
	if _, err := io.ReadFull(out, ready); err != nil {
		t.Fatal(err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: firstRange, Len: lastRange - firstRange + 1}
	registry, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	if err := unix.FcntlFlock(registry.Fd(), unix.F_OFD_SETLK, &lock); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("ids of a living program: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // it was killed
	if err := unix.FcntlFlock(registry.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		t.Errorf("ids of a dead program: %v", err)
	}
}

// registrar is a program that has ids.
func registrar(f facts) error {
	registry, err := os.Create(f.File)
	if err != nil {
		return err
	}
	r := &ranges{host: &Host{}, registry: registry, own: map[int64]bool{}, next: firstRange}
	if _, err := r.claim(); err != nil {
		return err
	}
	fmt.Println("ready")
	time.Sleep(time.Minute)
	return nil
}
