package storedir

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"aether/sandbox"
)

// holderEnv makes the test binary take a lock and keep it until it is killed.
const holderEnv = "STOREDIR_TEST_HOLD"

// connectAs makes the test binary connect to a socket and print what it reads.
const connectAs = "STOREDIR_TEST_CONNECT"

// connectTo prints what the listener at path sends.
func connectTo(path string) {
	conn, err := net.Dial("unix", path)
	if err == nil {
		_, err = io.Copy(os.Stdout, conn)
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func TestMain(m *testing.M) {
	if path := os.Getenv(holderEnv); path != "" {
		if _, err := Try(path); err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("held\n")
		select {}
	}
	if path := os.Getenv(connectAs); path != "" {
		connectTo(path)
	}
	for variable, play := range roles {
		if value := os.Getenv(variable); value != "" {
			play(value)
		}
	}
	os.Exit(m.Run())
}

// roles are what else the test binary does, by the variable that asks for it. Each ends
// it.
var roles = map[string]func(string){}

func TestLockExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Try(path); !errors.Is(err, ErrHeld) {
		t.Fatalf("a held lock answered %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Acquire(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("waiting for a held lock answered %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a released lock leaves %v", err)
	}
}

// TestLockHammer would see two holders at once if a removed lock file could
// still be locked.
func TestLockHammer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var work sync.WaitGroup
	inside := make(chan struct{}, 1)
	for range 8 {
		work.Go(func() {
			for range 50 {
				lock, err := Acquire(t.Context(), path)
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case inside <- struct{}{}:
				default:
					t.Error("two holders at once")
				}
				<-inside
				if err := lock.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
}

func TestLockEndsWithItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), holderEnv+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Skipf("this host cannot run the test binary again: %v", err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if _, err := Try(path); !errors.Is(err, ErrHeld) {
		t.Fatalf("a lock of another program answered %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed, so always an error
	lock, err := Try(path)
	if err != nil {
		t.Fatalf("the lock outlives its holder: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "new"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir  string
		part []string
		ok   bool
		want sandbox.Class
	}{
		{dir: filepath.Join(dir, "new", "deep"), part: []string{"one", "two"}, ok: true},
		{dir: filepath.Join(dir, "new", "deep"), part: []string{"two", "three"}, ok: true},
		{dir: open, want: sandbox.Denied},
		{dir: dir, part: []string{"new", "open"}, want: sandbox.Denied},
		{dir: dir, part: []string{"file"}, want: sandbox.Invalid},
		{dir: dir, part: []string{"link"}, want: sandbox.Invalid},
	} {
		err := Prepare(c.dir, c.part...)
		if (err == nil) != c.ok || err != nil && sandbox.ClassOf(err) != c.want {
			t.Errorf("Prepare(%s, %q) = %v", c.dir, c.part, err)
		}
	}
	for _, part := range []string{"one", "two", "three"} {
		if info, err := os.Stat(filepath.Join(dir, "new", "deep", part)); err != nil || info.Mode().Perm() != 0o711 {
			t.Errorf("%s: %v, %v", part, info, err)
		}
	}
	if err := Prepare(file); err == nil {
		t.Error("a file was taken for a directory")
	}
}
