package confine

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const runtimeHasOneABI = runtime.GOARCH != "amd64"

// writesStayInside changes everything in the image that may be changed and
// compares the image's directory on the host.
func writesStayInside(t *testing.T, s *scene) {
	before := fingerprint(t, s.layer)
	cell := s.boot(t)
	out, code := sh(t, cell, `echo upper > /etc/writable && rm /etc/open/file && echo new > /etc/open/new && mv /etc/open/new /etc/open/moved &&
		ln -s / /tmp/root && mkdir /home/user/d && cat /etc/writable`)
	if out != "upper" || code != 0 {
		t.Errorf("the cell cannot write: %q, code %d", out, code)
	}
	if after := fingerprint(t, s.layer); after != before {
		t.Errorf("the image changed from\n%s\nto\n%s", before, after)
	}
	if out, _ := sh(t, s.boot(t), "cat /etc/writable; ls /etc/open"); out != "lowerfile" {
		t.Errorf("another cell of the same image sees %q", out)
	}
}

func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// linksInTheImage: an image whose directories are links to elsewhere either does
// not boot or leads nowhere.
func linksInTheImage(t *testing.T, s *scene) {
	outside := t.TempDir()
	before := fingerprint(t, outside)
	for _, place := range []string{"dev", "proc", "usr", "tmp", "mnt"} {
		for _, target := range []string{outside, "../../../../../../.." + outside, "/p", "/l0", "/proc/1/root", "/m/../.."} {
			hostileImage(t, s, place, target, outside)
		}
	}
	if after := fingerprint(t, outside); after != before {
		t.Errorf("the directory outside changed from\n%s\nto\n%s", before, after)
	}
}

func hostileImage(t *testing.T, s *scene, place, target, outside string) {
	t.Helper()
	tree := hostTree(t)
	path := filepath.Join(tree.Layers[0], place)
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	base, err := s.host.Prepare(tree)
	if err != nil {
		return
	}
	defer base.Close()
	cell, err := base.Boot(Config{Hostname: "cell", Upper: 1 << 20, Group: noGroup, Mounts: []Mount{{Source: filepath.Dir(s.facts.File), Target: "/mnt/x"}}})
	if err != nil {
		return
	}
	defer endCell(t, cell)
	root, err := cell.Root()
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	for _, path := range []string{outside, place + outside, place + "/etc/hostname"} {
		if fd, err := unix.Openat2(int(root.Fd()), path, &how); err == nil {
			unix.Close(fd)
			t.Errorf("/%s as a link to %s: the cell has %s", place, target, path)
		}
	}
}

// otherCells puts an attacker beside a resident of another cell of one image.
func otherCells(t *testing.T, s *scene) {
	for _, who := range s.whos() {
		residence := s.boot(t, func(c *Config) { c.Hostname = "other" })
		r := s.start(t, residence, "resident", who, s.facts)
		f := s.facts
		f.OtherPort = number(t, line(t, r.out))
		s.compare(t, who.name, neighbourTrials(f), s.answers(t, s.boot(t), "neighbour", who, f))
		if r.ended() {
			t.Error("the resident has ended")
		}
	}
}

func line(t *testing.T, file *os.File) string {
	t.Helper()
	text, err := bufio.NewReader(file).ReadString('\n')
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return strings.TrimSpace(text)
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// outliveDestroy leaves daemons behind and looks for them from outside.
func outliveDestroy(t *testing.T, s *scene) {
	cell := s.boot(t)
	f := s.facts
	f.Limit = 2
	if out, status := s.run(t, cell, "daemons", who{"user", UserID}, f); status.Code != 0 {
		t.Fatalf("%+v %s", status, out)
	}
	await(t, "daemons", func() bool { return lingering(t) == 3 })
	endCell(t, cell)
	if n := lingering(t); n != 0 {
		t.Errorf("%d processes outlive their cell", n)
	}
}

// lingering counts the daemons that have no generation to come.
func lingering(t *testing.T) (n int) {
	t.Helper()
	for _, p := range others() {
		if strings.HasPrefix(p.text("cmdline"), lingerName) && strings.Contains(p.text("environ"), `"Limit":0`) {
			n++
		}
	}
	return n
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	const patience = 2 * time.Minute
	for end := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
