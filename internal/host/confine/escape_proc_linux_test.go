package confine

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

// openedInProc: nobody in a cell reads or writes a file of /proc that not everyone
// on the host could.
func openedInProc(t *testing.T, s *scene) {
	for _, who := range s.whos() {
		if got := s.tooOpen(t, who); len(got) > 0 {
			t.Errorf("%s: %s", who.name, strings.Join(got, ", "))
		}
	}
}

// TestEscapeNoticesOpenProc leaves out the covers, which only a cell whose processes
// are the host's root needs for such files.
func TestEscapeNoticesOpenProc(t *testing.T) {
	s := newScene(t, partMasks)
	got := s.tooOpen(t, s.whos()[0])
	if s.host.Identity.isRoot() && len(got) == 0 {
		t.Error("nothing is found in a /proc that is not covered")
	}
	if !s.host.Identity.isRoot() && len(got) > 0 {
		t.Errorf("an ordinary user opens %s", strings.Join(got, ", "))
	}
}

// tooOpen gives what the prober could do and others than root could not outside.
func (s *scene) tooOpen(t *testing.T, who who) (list []string) {
	t.Helper()
	out, status := s.run(t, s.boot(t), "prober", who, s.facts)
	if status.Code != 0 || !strings.Contains(out, "read meminfo") {
		t.Fatalf("%+v: %s", status, out)
	}
	for line := range strings.Lines(out) {
		verb, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		right := fs.FileMode(0o004)
		if verb == "write" {
			right = 0o002
		}
		if !openToAll(t, "/proc/"+name, right) {
			list = append(list, verb+" "+name)
		}
	}
	return list
}

// openToAll goes by the modes of the file and of the directories above it.
func openToAll(t *testing.T, name string, right fs.FileMode) bool {
	t.Helper()
	for right := right; name != "/"; name, right = path.Dir(name), 0o001 {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&right == 0 {
			return false
		}
	}
	return true
}

func TestClosedFiles(t *testing.T) {
	file := func(mode fs.FileMode) *fstest.MapFile { return &fstest.MapFile{Mode: mode} }
	got, err := closedFiles(fstest.MapFS{
		"meminfo": file(0o444), "kpageflags": file(0o400), "mtrr": file(0o644), "pressure/io": file(0o666), "kcore": file(0o400),
		"tty/driver": file(fs.ModeDir | 0o500), "tty/driver/serial": file(0o444), "irq/1/x": file(0o600), "42/mem": file(0o600),
		"self": file(fs.ModeSymlink | 0o777), "sys/kernel/cad_pid": file(0o600), "sys/vm/swappiness": file(0o644), "sys/net/key": file(0o600),
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range got {
		names = append(names, m.name+" "+m.cover)
	}
	want := []string{"kpageflags " + ownEmpty, "mtrr " + ownEmpty, "sys/kernel/cad_pid " + ownEmpty, "tty/driver " + ownBlank}
	if strings.Join(names, ", ") != strings.Join(want, ", ") {
		t.Errorf("%q, not %q", names, want)
	}
}
