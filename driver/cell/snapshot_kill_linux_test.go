package cell_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/guest"
	"aether/image"
	"aether/image/snapshot"
	"aether/sandbox"
)

const (
	keeperRole     = "keeper"
	keeperVariable = "AETHER_CELL_TEST_KEEPER"
)

func init() { roles[keeperRole] = keeper }

// keeper takes snapshots until it is killed.
func keeper() error {
	dir, ctx := os.Getenv(keeperVariable), context.Background()
	driver := cell.New(cell.Options{RunDir: filepath.Join(dir, "run"),
		Images: func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }})
	instance, err := driver.Create(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}
	c := guest.NewClient(instance.Dial, guest.ClientOptions{})
	for n := 0; ; n++ {
		script := fmt.Sprintf("echo %d > /tmp/n; head -c 300000 /dev/urandom > /tmp/large; cksum < /tmp/large > /tmp/sum", os.Getpid()*1000+n)
		if _, err := try(ctx, c, shell(script)); err != nil {
			return err
		}
		kept := filepath.Join(dir, "kept", strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(n))
		if err := os.MkdirAll(kept, 0o700); err != nil {
			return err
		}
		if err := instance.(sandbox.Snapshotter).Snapshot(ctx, kept, sandbox.Filesystem); err != nil {
			return err
		}
	}
}

// TestKilledSnapshotsAreWholeOrNone kills programs that take snapshots.
func TestKilledSnapshotsAreWholeOrNone(t *testing.T) {
	dir := t.TempDir()
	driver := cell.New(cell.Options{RunDir: filepath.Join(dir, "run"),
		Images: func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }})
	t.Cleanup(func() { driver.Close(context.Background()) })
	destroy(t, create(t, driver, sandbox.Spec{})) // makes the image
	for range 8 {
		killKeeper(t, dir, rand.N(150*time.Millisecond))
	}
	kept, err := filepath.Glob(filepath.Join(dir, "kept", "*"))
	if err != nil || len(kept) == 0 {
		t.Fatalf("nothing was kept: %v", err)
	}
	whole := 0
	for _, one := range kept {
		if _, err := snapshot.Read(one); sandbox.ClassOf(err) == sandbox.NotFound {
			continue
		}
		whole++
		restored := restore(t, driver, one, sandbox.Spec{})
		sh(t, restored, `[ "$(cksum < /tmp/large)" = "$(cat /tmp/sum)" ]`)
		destroy(t, restored)
	}
	t.Logf("%d of %d snapshots are whole", whole, len(kept))
	if _, err := driver.Reap(t.Context()); err != nil {
		t.Error(err)
	}
	wantEmpty(t, filepath.Join(dir, "run/disks/snapshots/work"))
}

// killKeeper kills a program some time after it has begun with its first snapshot.
func killKeeper(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"="+keeperRole, keeperVariable+"="+dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	begun := eventually(20*time.Second, func() bool {
		kept, _ := filepath.Glob(filepath.Join(dir, "kept", strconv.Itoa(cmd.Process.Pid)+"-*"))
		return len(kept) > 0
	})
	if !begun {
		t.Error("no snapshot was begun")
	}
	time.Sleep(after)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if state, err := cmd.Process.Wait(); err != nil || state.Exited() {
		t.Errorf("the program ended by itself: %v, %v", state, err)
	}
}
