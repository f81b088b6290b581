package idrange

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// registrarVariable names the registry for a program that has ids.
const registrarVariable = "AETHER_IDRANGE_TEST"

func TestMain(m *testing.M) {
	if path := os.Getenv(registrarVariable); path != "" {
		fmt.Fprintln(os.Stderr, registrar(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func registrar(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := newRegistry(file, first).Claim(); err != nil {
		return err
	}
	fmt.Println("ready")
	time.Sleep(time.Minute)
	return errors.New("nobody has ended it")
}

// TestOwnersAreInNoCell: whoever had the id of the owner of a sandbox had every right over it.
func TestOwnersAreInNoCell(t *testing.T) {
	seen := map[int]bool{}
	for r := Range(first); r <= last; r++ {
		if owner := r.Owner(); seen[owner] || owner >= first*Count || owner < owners*Count {
			t.Fatalf("the range %#x is owned by %#x", int(r), owner)
		}
		seen[r.Owner()] = true
	}
}

// TestRangesRunOut takes all ids of the host there are, gives them back, and takes one.
func TestRangesRunOut(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/ids")
	if err != nil {
		t.Fatal(err)
	}
	r := newRegistry(file, first)
	defer r.Close()
	var taken []Range
	for {
		one, err := r.Claim()
		if err != nil {
			if sandbox.ClassOf(err) != sandbox.Exhausted {
				t.Fatal(err)
			}
			break
		}
		taken = append(taken, one)
	}
	if len(taken) != last-first+1 {
		t.Errorf("there are %d ranges", len(taken))
	}
	for _, one := range taken {
		if err := r.Release(one); err != nil {
			t.Fatal(err)
		}
	}
	if all, free := r.Held(); all != kept || free != kept {
		t.Errorf("%d ranges are kept, %d of them free", all, free)
	}
	if _, err := r.Claim(); err != nil {
		t.Error(err)
	}
}

// TestIdsOfADeadProgramAreFree kills a program that has ids of a registry.
func TestIdsOfADeadProgramAreFree(t *testing.T) {
	path := t.TempDir() + "/ids"
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), registrarVariable+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: first, Len: last - first + 1}
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
