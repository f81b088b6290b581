package daemontest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"aether/sandbox"
)

// victimVariable tells a program to make sandboxes in a directory, say so and wait
// to be killed.
const victimVariable = "AETHER_DAEMONS_TEST_VICTIM"

func playVictim(new func(dir string) sandbox.Driver) (played bool, code int) {
	dir := os.Getenv(victimVariable)
	if dir == "" {
		return false, 0
	}
	driver := new(dir)
	for _, id := range []string{"running", "paused"} {
		instance, err := driver.Create(context.Background(), sandbox.Spec{ID: id})
		if err == nil && id == "paused" {
			err = instance.(sandbox.Pauser).Pause(context.Background())
		}
		if err != nil {
			fmt.Println(err)
			return true, 1
		}
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return true, 1
}

// KilledProgram holds a driver to it that the next program removes the sandboxes of
// one that was killed, running or paused, and nothing of a living one. Held lists
// what the daemon has; killed, if not nil, looks at what is left before it is
// removed.
func KilledProgram(t *testing.T, new func(dir string) sandbox.Driver, held func() ([]string, error), killed func()) {
	dir := t.TempDir()
	before, err := held()
	if err != nil {
		t.Fatal(err)
	}
	kill := victim(t, dir)
	next := new(dir).(sandbox.Reaper)
	if n, err := next.Reap(t.Context()); n != 0 || err != nil {
		t.Errorf("%d sandboxes of a living program were reaped (%v)", n, err)
	}
	kill()
	if killed != nil {
		killed()
	}
	if n, err := next.Reap(t.Context()); n != 2 || err != nil {
		t.Errorf("%d were reaped (%v)", n, err)
	}
	if left, err := held(); err != nil || len(left) != len(before) {
		t.Errorf("%q are left (%v)", left, err)
	}
	for _, pattern := range []string{"*.owner", "*.boxes"} {
		if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) > 0 {
			t.Errorf("%q are left", found)
		}
	}
}

// victim starts a program that has made its sandboxes.
func victim(t *testing.T, dir string) (kill func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), victimVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 400)
	if n, err := out.Read(said); err != nil || string(said[:n]) != "ready\n" {
		t.Errorf("%q, %v", said[:n], err)
	}
	return func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}
}
