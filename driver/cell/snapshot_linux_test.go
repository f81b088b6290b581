package cell_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/internal/host/features"
	"aether/sandbox"
)

// ownerSpec is a cell whose commands may change all of the image: those of its
// root or, for an ordinary user, of the only one there is.
func ownerSpec() sandbox.Spec {
	spec := sandbox.Spec{Command: sandbox.CommandDefaults{Env: map[string]string{"KEPT": "yes"}, WorkDir: "/tmp"}}
	if !ordinary() {
		spec.Command.User = "root"
	}
	return spec
}

// everyKind makes one of everything that a cell can write. What it needs of the
// image is what every host's has.
const everyKind = `set -e; cd /opt; umask 022
echo new > new; mkdir -p dir/deep/deeper; echo deep > dir/deep/deeper/file; chmod 0750 dir/deep
rm /etc/nsswitch.conf; echo changed > /etc/profile; chmod 0600 /etc/profile; touch -d '2001-02-03 04:05:06.789' /etc/hosts
rm -r /var; mkdir /var; echo new > /var/new; rm -r /srv; echo file > /srv; rm /etc/hostname; mkdir /etc/hostname; echo x > /etc/hostname/x
ln -s ../../../../../../etc/passwd climb; ln -s nowhere dangling; ln -s "$(printf 'a\nb')" odd
ln new other; ln new /mnt/new; ln -s x s1; ln -P s1 s2; mkfifo -m 0620 fifo; mkdir -m 01777 sticky
truncate -s 8G sparse; printf end | dd of=sparse bs=1 seek=8000000000 conv=notrunc 2>/dev/null
printf begin | dd of=sparse bs=1 conv=notrunc 2>/dev/null; truncate -s 1G hole
head -c 3000000 /dev/urandom > big; cp big same; : > empty; mkdir 'odd
name'; echo x > 'odd
name/ *?'; printf x > "$(printf 'no\377text')"; echo closed > closed; chmod 000 closed
touch -d '2031-01-01' dir/deep/deeper/file; touch -h -d '2002-02-02' climb; touch -d '1999-09-09' dir /mnt`

// panorama shows everything in a cell's root but what is mounted there, and what
// is in files. Set-id bits are not kept.
const panorama = `cd /; find . -xdev \( -path ./proc -o -path ./dev -o -path . \) -o \
	\( -type d -printf '%p %y %m %U:%G %T@\n' -o -printf '%p %y %m %U:%G %T@ %n %l %s\n' \) | sort
find . -xdev -type f -size -8192k | sort | xargs -d '\n' cksum 2>&1; tail -c 3 /opt/sparse; head -c 6 /opt/sparse | tr -d '\0'
[ $(stat -c %b /opt/sparse) -lt 300 ] || echo the holes are filled; echo $KEPT; pwd`

// snapshotOf keeps the files of a cell, and restore makes a cell of such.
func snapshotOf(t testing.TB, instance sandbox.Instance) (dir string) {
	t.Helper()
	return keep(t, instance, sandbox.Filesystem)
}

func restore(t testing.TB, driver *cell.Driver, dir string, spec sandbox.Spec) sandbox.Instance {
	t.Helper()
	return give(t, driver, dir, sandbox.Filesystem, spec)
}

func keep(t testing.TB, instance sandbox.Instance, f sandbox.Fidelity) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := instance.(sandbox.Snapshotter).Snapshot(t.Context(), dir, f); err != nil {
		t.Fatal(err)
	}
	return dir
}

func give(t testing.TB, driver *cell.Driver, dir string, f sandbox.Fidelity, spec sandbox.Spec) sandbox.Instance {
	t.Helper()
	instance, err := driver.Restore(t.Context(), dir, f, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { destroy(t, instance) })
	return instance
}

// wantSame compares two panoramas.
func wantSame(t testing.TB, what, want, got string) {
	t.Helper()
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wants), len(gots)) {
		if wants[i] != gots[i] {
			t.Errorf("%s: want %q\ngot %q", what, wants[i], gots[i])
			return
		}
	}
	if len(wants) != len(gots) {
		t.Errorf("%s: %d lines became %d", what, len(wants), len(gots))
	}
}

func TestSnapshotKeepsEveryKindOfFile(t *testing.T) {
	driver, _ := newDriver(t)
	for name, disk := range map[string]bool{"memory": false, "disk": true} {
		t.Run(name, func(t *testing.T) {
			if !disk && !features.TmpfsUserAttributes() {
				t.Skip("in memory no directory of the image can be replaced before Linux 6.6")
			}
			spec := ownerSpec()
			spec.Limits.DiskBacked = disk
			source := create(t, driver, spec)
			sh(t, source, everyKind)
			before := sh(t, source, panorama)
			dir := snapshotOf(t, source)
			wantSame(t, "the source", before, sh(t, source, panorama))
			wantSame(t, "restored", before, sh(t, restore(t, driver, dir, sandbox.Spec{}), panorama))
		})
	}
}

// TestSnapshotsOfRestoredCells hold what all cells of the line wrote.
func TestSnapshotsOfRestoredCells(t *testing.T) {
	driver, _ := newDriver(t)
	disk := sandbox.Limits{DiskBacked: !features.TmpfsUserAttributes()} // or no directory of the image could be replaced
	spec := ownerSpec()
	spec.Limits = disk
	first := create(t, driver, spec)
	sh(t, first, everyKind)
	second := restore(t, driver, snapshotOf(t, first), sandbox.Spec{Limits: disk})
	sh(t, second, `set -e; cd /opt; rm big; echo again > /etc/nsswitch.conf; rm -r /var; rm -r dir; mkdir dir; echo only > dir/only
		rm /srv; mkdir /srv; echo more >> /etc/profile; rm -r /etc/hostname; echo name > /etc/hostname; mkdir sticky/below`)
	want := sh(t, second, panorama)
	dir := snapshotOf(t, second)
	for range 2 {
		third := restore(t, driver, dir, sandbox.Spec{})
		wantSame(t, "the third", want, sh(t, third, panorama))
		dir = snapshotOf(t, third) // nothing was written since
	}
}

func TestRestoresShareOneLayer(t *testing.T) {
	driver, runDir := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	sh(t, source, "head -c 5000000 /dev/urandom > /home/user/big; cp /home/user/big /home/user/same")
	dirs := []string{snapshotOf(t, source), snapshotOf(t, source)}
	blobs := filesBelow(t, filepath.Join(runDir, "disks/snapshots/blobs"))
	if len(blobs) != 2 { // the content and the manifest, each once
		t.Errorf("two snapshots of two equal files keep %v", blobs)
	}
	var before int64
	for n, dir := range []string{dirs[0], dirs[1], dirs[0]} {
		cell := restore(t, driver, dir, sandbox.Spec{})
		sh(t, cell, "[ $(stat -c %u /home/user/big) = 1000 ] && cmp /home/user/big /home/user/same && echo mine >> /home/user/same")
		used := blocksUnder(t, filepath.Join(runDir, "disks/snapshots"))
		if n > 0 && used > before {
			t.Errorf("restore %d took the disk from %d to %d", n+1, before, used)
		}
		before = used
	}
}

func blocksUnder(t *testing.T, dir string) (total int64) {
	t.Helper()
	seen := map[uint64]bool{}
	for _, name := range filesBelow(t, dir) {
		info, err := os.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		st := info.Sys().(*syscall.Stat_t)
		if !seen[st.Ino] {
			seen[st.Ino] = true
			total += st.Blocks
		}
	}
	return total
}

// TestManySnapshots restores from more layers than are kept ready at a time.
func TestManySnapshots(t *testing.T) {
	driver, _ := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	for n := range 36 {
		sh(t, source, fmt.Sprintf("echo %d > /tmp/n", n))
		restored := restore(t, driver, snapshotOf(t, source), sandbox.Spec{})
		sh(t, restored, fmt.Sprintf("[ $(cat /tmp/n) = %d ]", n))
		destroy(t, restored)
	}
}

func TestSnapshotOfRunningProcesses(t *testing.T) {
	driver, _ := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	// Two files that are equal whenever nothing runs between their writing.
	start(t, source, `cd /tmp; n=0; while true; do n=$((n + 1)); echo $n > a.next; mv a.next a; echo $n > b.next; mv b.next b; done`)
	if !eventually(5*time.Second, func() bool {
		out, err := try(t.Context(), client(t, source), shell("[ -s /tmp/b ]"))
		return err == nil && out.Code == 0
	}) {
		t.Fatal("it does not count")
	}
	dir := t.TempDir()
	err := source.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Filesystem)
	if ordinary() {
		wantClass(t, err, sandbox.Conflict, "")
		wantEmpty(t, dir)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	sh(t, restore(t, driver, dir, sandbox.Spec{}), `cd /tmp; a=$(cat a); b=$(cat b); [ $a = $b ] || [ $a = $((b + 1)) ]`)
	sh(t, source, `cd /tmp; a=$(cat a); for i in $(seq 6000); do [ $a != $(cat a) ] && exit; sleep 0.01; done; exit 1`)
}

func TestSnapshotOfAPausedCell(t *testing.T) {
	needRoot(t, "cgroups to freeze")
	driver, _ := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	sh(t, source, "echo kept > /tmp/file")
	if err := pauser(t, source).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := snapshotOf(t, source)
	wantClass(t, pauser(t, source).Pause(t.Context()), sandbox.Conflict, "")
	if got := sh(t, restore(t, driver, dir, sandbox.Spec{}), "cat /tmp/file"); got != "kept" {
		t.Errorf("restored %q", got)
	}
}

func wantEmpty(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("%s holds %v, %v", dir, entries, err)
	}
}

func TestFailedSnapshotsLeaveNothing(t *testing.T) {
	driver, runDir := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	sh(t, source, "echo kept > /tmp/file; cd /tmp; i=0; while [ $i -lt 250 ]; do mkdir d && cd ./d || exit 1; i=$((i+1)); done")
	dir := t.TempDir()
	snapshotter := source.(sandbox.Snapshotter)
	wantClass(t, snapshotter.Snapshot(t.Context(), dir, sandbox.Filesystem), sandbox.Exhausted, "")
	wantEmpty(t, dir)
	sh(t, source, "rm -r /tmp/d")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := snapshotter.Snapshot(cancelled, dir, sandbox.Filesystem); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	wantEmpty(t, dir)

	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantClass(t, snapshotter.Snapshot(t.Context(), full, sandbox.Filesystem), sandbox.Conflict, "dir")
	for _, part := range []string{"work", "locks"} {
		wantEmpty(t, filepath.Join(runDir, "disks/snapshots", part))
	}
	sh(t, source, "[ $(cat /tmp/file) = kept ]")
	if err := snapshotter.Snapshot(t.Context(), dir, sandbox.Filesystem); err != nil {
		t.Error(err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	driver, runDir := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	sh(t, source, "echo one > /tmp/one; echo two > /tmp/two")
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		spec   sandbox.Spec
		want   sandbox.Class
		field  string
	}{
		{"an image", nil, sandbox.Spec{Image: "/other"}, sandbox.Invalid, "image"},
		{"a mount over all", nil, sandbox.Spec{Mounts: []sandbox.Mount{{Source: "/usr", Target: "/"}}}, sandbox.Invalid, "mounts"},
		{"a limit out of bounds", nil, sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 1}}, sandbox.Invalid, "limits.memory"},
		{"no snapshot", func(t *testing.T, dir string) { remove(t, dir, "snapshot.json") }, sandbox.Spec{}, sandbox.NotFound, "snapshot"},
		{"a cut record", func(t *testing.T, dir string) {
			edit(t, dir, "snapshot.json", func(s string) string { return s[:len(s)/2] })
		},
			sandbox.Spec{}, sandbox.Invalid, "snapshot"},
		{"another image", func(t *testing.T, dir string) {
			edit(t, dir, "snapshot.json", func(s string) string { return strings.Replace(s, `"sha256:`, `"sha256:0`, 1) })
		}, sandbox.Spec{}, sandbox.Conflict, "snapshot"},
		{"no manifest", func(t *testing.T, dir string) { remove(t, dir, "manifest") }, sandbox.Spec{}, sandbox.Invalid, "snapshot"},
		{"another manifest", func(t *testing.T, dir string) {
			edit(t, dir, "manifest", func(s string) string { return strings.Replace(s, "tmp/one", "tmp/eno", 1) })
		}, sandbox.Spec{}, sandbox.Invalid, "snapshot"},
		{"a missing content", func(t *testing.T, dir string) { remove(t, dir, anyBlob(t, dir)) }, sandbox.Spec{}, sandbox.Invalid, "snapshot"},
		{"another content", func(t *testing.T, dir string) { edit(t, dir, anyBlob(t, dir), strings.ToUpper) }, sandbox.Spec{}, sandbox.Invalid, "snapshot"},
		{"a short content", func(t *testing.T, dir string) { edit(t, dir, anyBlob(t, dir), func(s string) string { return s[1:] }) },
			sandbox.Spec{}, sandbox.Invalid, "snapshot"},
		{"a long content", func(t *testing.T, dir string) {
			edit(t, dir, anyBlob(t, dir), func(s string) string { return s + "\n" })
		},
			sandbox.Spec{}, sandbox.Invalid, "snapshot"},
		{"a link for a content", func(t *testing.T, dir string) {
			name := anyBlob(t, dir)
			remove(t, dir, name)
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}, sandbox.Spec{}, sandbox.Invalid, "snapshot"},
		{"a fifo for the record", func(t *testing.T, dir string) {
			remove(t, dir, "snapshot.json")
			if err := exec.Command("mkfifo", "-m", "600", filepath.Join(dir, "snapshot.json")).Run(); err != nil {
				t.Fatal(err)
			}
		}, sandbox.Spec{}, sandbox.Invalid, "snapshot"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := snapshotOf(t, source)
			if c.damage != nil {
				c.damage(t, dir)
			}
			_, err := driver.Restore(t.Context(), dir, sandbox.Filesystem, c.spec)
			wantClass(t, err, c.want, c.field)
			for _, part := range []string{"work", "locks", "layers"} {
				if left := filesBelow(t, filepath.Join(runDir, "disks/snapshots", part)); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			}
		})
	}
}

func remove(t testing.TB, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// edit puts another file in the place of one, which has names elsewhere.
func edit(t testing.TB, dir, name string, change func(string) string) {
	t.Helper()
	path := filepath.Join(dir, name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	remove(t, dir, name)
	if err := os.WriteFile(path, []byte(change(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
}

func anyBlob(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "blobs"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("no contents: %v", err)
	}
	return filepath.Join("blobs", entries[0].Name())
}

// TestSnapshotsOutliveTheirProgramButNotTheirRemoval restores by another driver,
// and reaps.
func TestSnapshotsOutliveTheirProgramButNotTheirRemoval(t *testing.T) {
	runDir := filepath.Join(t.TempDir(), "run")
	first := cell.New(optionsIn(runDir, 0))
	source, err := first.Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	sh(t, source, "echo kept > /tmp/file")
	dir := snapshotOf(t, source)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := cell.New(optionsIn(runDir, 0))
	t.Cleanup(func() { second.Close(context.Background()) })
	restored := restore(t, second, dir, sandbox.Spec{})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := cell.New(optionsIn(runDir, 0)).Reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh(t, restored, "[ $(cat /tmp/file) = kept ] && rm /tmp/file && [ ! -e /tmp/file ]")
	if err := second.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	count, err := cell.New(optionsIn(runDir, 0)).Reap(t.Context())
	if left := filesBelow(t, filepath.Join(runDir, "disks/snapshots")); err != nil || count == 0 || len(left) > 0 {
		t.Errorf("%d reaped, %v, and left: %v", count, err, left)
	}
}

// TestLayersAreLetGo: while the driver lives, the layer of a snapshot that is gone stays as
// long as a cell has it, a fork's child included, and no longer.
func TestLayersAreLetGo(t *testing.T) {
	driver, runDir := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	sh(t, source, "echo kept > /tmp/file")
	dir := snapshotOf(t, source)
	living := []sandbox.Instance{restore(t, driver, dir, sandbox.Spec{}), restore(t, driver, dir, sandbox.Spec{})}
	if forker, ok := living[1].(sandbox.Forker); ok {
		children, err := forker.Fork(t.Context(), make([]sandbox.Spec, 2))
		if err != nil {
			t.Fatal(err)
		}
		living = append(living, children...)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	reap := func() {
		t.Helper()
		if _, err := driver.Reap(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, instance := range living {
		reap()
		if got := sh(t, instance, "cat /tmp/file"); got != "kept" {
			t.Errorf("its file says %q", got)
		}
		destroy(t, instance)
	}
	reap()
	for _, of := range []string{"layers", "blobs"} {
		if left := filesBelow(t, filepath.Join(runDir, "disks/snapshots", of)); len(left) > 0 {
			t.Errorf("when all cells have ended there are %v", left)
		}
	}
	again := restore(t, driver, snapshotOf(t, source), sandbox.Spec{})
	reap()
	if got := sh(t, again, "cat /tmp/file"); got != "kept" {
		t.Errorf("of the same files once more came %q", got)
	}
}

func TestSnapshotAndRestoreLeakNothing(t *testing.T) {
	driver, runDir := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	sh(t, source, "mkdir -p /tmp/a/b; echo kept > /tmp/a/b/file")
	round := func() {
		dir := snapshotOf(t, source)
		for range 2 {
			instance, err := driver.Restore(t.Context(), dir, sandbox.Filesystem, sandbox.Spec{})
			if err != nil {
				t.Fatal(err)
			}
			destroy(t, instance)
		}
	}
	round()
	before := takeCensus(t, runDir)
	for range 5 {
		round()
	}
	wantNoGrowth(t, before, runDir)
}

func BenchmarkRestore(b *testing.B) {
	driver, _ := newDriver(b)
	source := create(b, driver, sandbox.Spec{})
	sh(b, source, "mkdir /tmp/d; for i in $(seq 1000); do echo $i > /tmp/d/$i; done")
	dir := snapshotOf(b, source)
	for name, make := range map[string]func() (sandbox.Instance, error){
		"create": func() (sandbox.Instance, error) { return driver.Create(b.Context(), sandbox.Spec{}) },
		"restore": func() (sandbox.Instance, error) {
			return driver.Restore(b.Context(), dir, sandbox.Filesystem, sandbox.Spec{})
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				instance, err := make()
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				destroy(b, instance)
				b.StartTimer()
			}
		})
	}
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			snapshotOf(b, source)
		}
	})
}
