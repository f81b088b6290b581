package leaktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What is held is counted, and no more once it is given back.
func TestGrown(t *testing.T) {
	dir := t.TempDir()
	take := func() Census { return Take(t, Descendants(t, os.Getpid()), dir) }
	before := take()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	file, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		<-stop
	}()
	grown := strings.Join(take().Grown(before), "\n")
	for _, want := range []string{"processes: 0, now 1", " sleep ", "files: 1, now 2", "descriptors of " + file.Name(), "goroutines: "} {
		if !strings.Contains(grown, want) {
			t.Errorf("no %q in %s", want, grown)
		}
	}
	close(stop)
	<-ended
	file.Close()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := os.Remove(file.Name()); err != nil {
		t.Fatal(err)
	}
	before.Descriptors = take().Descriptors // the runtime keeps some of its own
	var left []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) { // goroutines that are done go by themselves
		if left = take().Grown(before); len(left) == 0 {
			return
		}
	}
	t.Errorf("nothing is held: %q", left)
}

func TestMarked(t *testing.T) {
	self, ok := Find(os.Getpid())
	if !ok {
		t.Fatal("this process is not found")
	}
	if found := strings.Join(Marked(t, map[string]string{self.Mark: "now"}), "\n"); !strings.Contains(found, self.Name) || !strings.Contains(found, "after now") {
		t.Errorf("this process is not among %q", found)
	}
	if first := FreeMarks(t, 600, 900, 10); first < 600 || first > 890 || len(Marked(t, map[string]int{"600": 1})) > 0 && first == 600 {
		t.Errorf("marks from %d", first)
	}
}

// TestMounts: a mount of the test is seen, and those of others are not.
func TestMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	place := filepath.Join(dir, "place")
	if err := os.Mkdir(place, 0o755); err != nil {
		t.Fatal(err)
	}
	if before := Mounts(t, t.TempDir()); len(before) > 0 {
		t.Errorf("before there are %q", before)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "none", place).CombinedOutput(); err != nil {
		t.Skipf("this host lets nobody mount: %s", out)
	}
	found := Mounts(t, t.TempDir())
	if out, err := exec.Command("umount", place).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(found) != 1 || !strings.Contains(found[0], place) {
		t.Errorf("there are %q", found)
	}
}
