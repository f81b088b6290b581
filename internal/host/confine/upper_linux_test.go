package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/internal/host/features"
	"aether/internal/host/storedir"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// lowerFiles is what the image of these tests has for cells to change.
var lowerFiles = []string{"etc/removed", "etc/changed", "etc/touched", "etc/linked", "gone/a/b", "gone/c", "emptied/a/b", "emptied/c",
	"nowfile/a/b", "nowdir", "nowlink", "kept/a"}

// writable plants an image that the root of a cell may change at will.
func writable(t testing.TB, h *Host) *Base {
	t.Helper()
	tree := hostTree(t)
	for _, name := range lowerFiles {
		path := filepath.Join(tree.Layers[0], name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("image "+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	base, err := h.Prepare(tree)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { base.Close() })
	return base
}

// changes makes one of everything that a cell can write.
const changes = `set -e; cd /
echo new > /etc/new; mkdir -p /etc/dir/deep/deeper; echo deep > /etc/dir/deep/deeper/file; chmod 0750 /etc/dir/deep
rm /etc/removed; echo changed > /etc/changed; chmod 0600 /etc/changed; touch -d '2001-02-03 04:05:06.789' /etc/touched
rm /nowlink; ln -s /etc/passwd /nowlink
ln -s ../../../../../../etc/passwd /etc/climb; ln -s nowhere /etc/dangling; ln -s "$(printf 'a\nb')" /etc/odd
ln /etc/linked /etc/other; ln /etc/new /home/user/new; ln -s x /etc/s1; ln -P /etc/s1 /etc/s2
mkfifo -m 0620 /etc/fifo; mkdir -m 01777 /etc/sticky; mkdir -m 02755 /etc/setgid; echo x > /etc/setgid/x
truncate -s 8G /etc/sparse; printf end | dd of=/etc/sparse bs=1 seek=8000000000 conv=notrunc 2>/dev/null
printf begin | dd of=/etc/sparse bs=1 conv=notrunc 2>/dev/null
head -c 3000000 /dev/urandom > /etc/big; : > /etc/empty; echo s > /etc/suid; chmod 4711 /etc/suid
mkdir '/etc/odd
name'; echo x > '/etc/odd
name/ *?'; echo closed > /etc/closed; chmod 000 /etc/closed; mkdir /etc/shut; echo x > /etc/shut/x; chmod 000 /etc/shut
echo shared > /dev/shm/segment; mkdir /dev/shm/d; echo y > /dev/shm/d/y
touch -d '2031-01-01' /etc/dir/deep/deeper/file; touch -h -d '2002-02-02' /etc/climb; touch -d '1999-09-09' /etc/dir /kept; chmod 0711 /`

// replacements remove and replace directories of the image.
const replacements = `
rm -r /gone; rm -r /emptied; mkdir /emptied; echo new > /emptied/new
rm -r /nowfile; echo file > /nowfile; rm /nowdir; mkdir /nowdir; echo x > /nowdir/x`

// picture shows everything in a cell's root, and the content of what is small.
const picture = `cd /; find . /dev/shm -xdev \( -path ./proc -o -path ./dev -o -path . -o -path /dev/shm \) -o \
	\( -type d -printf '%p %y %m %U:%G %T@\n' -o -printf '%p %y %m %U:%G %T@ %n %l %s\n' \) | sort
find . /dev/shm -xdev -type f -size -8192k | sort | xargs -d '\n' cksum 2>&1; stat -c '%a %u:%g %Y' /
[ $(stat -c %b /etc/sparse) -lt 100 ] || echo the holes are filled`

func TestTakeWrites(t *testing.T) {
	h := openHost(t)
	base := writable(t, h)
	for name, config := range map[string]Config{"memory": {Upper: 64 << 20}, "disk": {Disk: makeDisk(t, h)}} {
		t.Run(name, func(t *testing.T) {
			config.Group = noGroup
			source := bootFrom(t, base, config)
			others := []Config{{Upper: 64 << 20}, {Disk: makeDisk(t, h)}}
			script := changes + replacements
			if !features.TmpfsUserAttributes() {
				t.Log("before Linux 6.6 no directory of an image can be replaced in memory")
				if name == "memory" {
					script = changes
				} else {
					others = others[1:]
				}
			}
			change(t, source, script)
			before := show(t, source)
			for _, other := range others {
				other.Group = noGroup
				target := bootFrom(t, base, other)
				if err := target.TakeWrites(t.Context(), source); err != nil {
					t.Fatal(err)
				}
				compare(t, before, show(t, target))
			}
			compare(t, before, show(t, source))
		})
	}
}

// TestNobodyInsideReachesItsWritesAroundTheOverlay, nor the root that PID 1 keeps. It holds
// without landlock too.
func TestNobodyInsideReachesItsWritesAroundTheOverlay(t *testing.T) {
	for _, without := range []string{"", partLandlock} {
		h := openHost(t)
		h.without = map[string]bool{without: true}
		cell := bootFrom(t, writable(t, h), Config{Upper: 1 << 20, Group: noGroup})
		for _, command := range []string{"ls /proc/1/fd", "ls /proc/1/fd/%d/", "readlink /proc/1/fd/%d", "cat /proc/1/fdinfo/%d", "cd /proc/1/cwd", "cd /proc/1/root"} {
			for _, fd := range []int{upperFd, rootFd} {
				command := strings.ReplaceAll(command, "%d", fmt.Sprint(fd))
				if out, code := shAsOwner(t, cell, command); code == 0 {
					t.Errorf("without %q: %s gave %q", without, command, out)
				}
			}
		}
		upper, err := cell.Upper()
		if err != nil {
			t.Fatal(err)
		}
		upper.Close()
	}
}

func TestTakeWritesLeavesMountsAlone(t *testing.T) {
	h := openHost(t)
	base := writable(t, h)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "canary"), []byte("canary"), 0o644); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(outside)
	if err != nil {
		t.Fatal(err)
	}
	source := bootFrom(t, base, Config{Disk: makeDisk(t, h), Group: noGroup})
	// The other cell has mounts where this one has a directory, a file and nothing.
	if out, code := shAsOwner(t, source, "mkdir -p /kept/d /tmp/file; chmod 0700 /kept/d; echo x > /kept/d/canary && rm -r /gone && echo x > /home/user/f"); code != 0 {
		t.Fatal(out)
	}
	target := bootFrom(t, base, Config{Disk: makeDisk(t, h), Group: noGroup, Mounts: []Mount{
		{Source: outside, Target: "/kept/d", Writable: true},
		{Source: outside, Target: "/gone/m", Writable: true},
		{Source: filepath.Join(outside, "canary"), Target: "/home/user/f", Writable: true},
	}})
	err = target.TakeWrites(t.Context(), source)
	if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EBUSY) {
		t.Errorf("a directory with a mount in it was removed: %v", err)
	}
	after, err := os.Stat(outside)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(outside, "canary"))
	if string(text) != "canary" || err != nil || after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("outside: %q, %v, %v then %v", text, err, before, after)
	}
}

func TestTakeWritesIsBounded(t *testing.T) {
	h := openHost(t)
	base := writable(t, h)
	for _, c := range []struct {
		name, command string
		want          sandbox.Class
	}{
		{"too deep", "cd /tmp; i=0; while [ $i -lt 250 ]; do mkdir d && cd ./d || exit 1; i=$((i+1)); done", sandbox.Exhausted},
		{"too large", "head -c 4000000 /dev/zero > /tmp/zero", sandbox.Exhausted},
	} {
		source := bootFrom(t, base, Config{Upper: 16 << 20, Group: noGroup})
		if out, code := shAsOwner(t, source, c.command); code != 0 {
			t.Fatal(out)
		}
		target := bootFrom(t, base, Config{Upper: 2 << 20, Group: noGroup})
		open := descriptorCount(t)
		if err := target.TakeWrites(t.Context(), source); sandbox.ClassOf(err) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := target.TakeWrites(ctx, source); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v", c.name, err)
		}
		if now := descriptorCount(t); now != open {
			t.Errorf("%s: %d descriptors became %d", c.name, open, now)
		}
	}
}

// descriptorCount counts them once nothing changes any more: who brought a command in is
// reaped a moment later.
func descriptorCount(t testing.TB) int {
	t.Helper()
	for last, since := 0, time.Now(); ; time.Sleep(5 * time.Millisecond) {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		if now := len(list); now != last {
			last, since = now, time.Now()
		} else if time.Since(since) > 50*time.Millisecond {
			return now
		}
	}
}

func makeDisk(t testing.TB, h *Host) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { storedir.RemoveAll(dir) })
	if err := h.MakeDisk(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func change(t testing.TB, cell *Cell, script string) {
	t.Helper()
	if out, code := shAsOwner(t, cell, script); code != 0 {
		t.Fatalf("code %d: %s", code, out)
	}
	root := fmt.Sprintf("/proc/%d/root", cell.Pid())
	for _, name := range []string{"/etc/new", "/etc/dir", "/kept/a"} {
		if err := unix.Setxattr(root+name, "user.note", []byte("about "+name), 0); err != nil {
			t.Logf("the file system has no attributes: %v", err)
		}
	}
	if _, code := shAsOwner(t, cell, `/usr/bin/env python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("/etc/socket")'`); code != 0 {
		t.Log("no socket was made: this host has no python3 in /usr")
	}
}

func show(t testing.TB, cell *Cell) string {
	t.Helper()
	out, _ := shAsOwner(t, cell, picture)
	root := fmt.Sprintf("/proc/%d/root", cell.Pid())
	for _, name := range []string{"/etc/new", "/etc/dir", "/kept/a", "/etc"} {
		value := make([]byte, 100)
		if n, err := unix.Getxattr(root+name, "user.note", value); err == nil {
			out += "\n" + name + ": " + string(value[:n])
		}
	}
	return out
}

func compare(t testing.TB, want, got string) {
	t.Helper()
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(wants), len(gots)) {
		if i >= len(wants) || i >= len(gots) || wants[i] != gots[i] {
			t.Errorf("want %q", wants[min(i, len(wants)-1)])
			t.Errorf("got  %q", gots[min(i, len(gots)-1)])
			return
		}
	}
}

func shAsOwner(t testing.TB, cell *Cell, text string) (string, int) {
	t.Helper()
	if cell.host.Identity.Single {
		return shAs(t, cell, UserID, text)
	}
	return shAs(t, cell, 0, text)
}

func BenchmarkTakeWritesOfNothing(b *testing.B) {
	h := openHost(b)
	base := writable(b, h)
	source := bootFrom(b, base, Config{Upper: 64 << 20, Group: noGroup})
	target := bootFrom(b, base, Config{Upper: 64 << 20, Group: noGroup})
	for b.Loop() {
		if err := target.TakeWrites(context.Background(), source); err != nil {
			b.Fatal(err)
		}
	}
}
