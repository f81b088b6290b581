package drivertest

import (
	"cmp"
	"os"
	"strconv"
	"strings"
	"testing"

	"aether/sandbox"
)

func (s *suite) snapshots() []test {
	return []test{{"restore", s.snapshotRestore}, {"restore files", s.restoreFiles}, {"files of a checkpoint", s.filesOfCheckpoint},
		{"files of a paused", s.filesOfPaused}, {"kinds of files", s.kindsOfFiles}, {"restore many", s.restoreMany}, {"fidelity", s.fidelity}}
}

// counting leaves a process in the sandbox that counts in memory, and gives how
// far it is. It has no children: not every system can carry those over.
func (b *box) counting(t testing.TB) func(*box) int {
	t.Helper()
	b.start(t, "n=0; while :; do n=$((n+1)); echo $n > /tmp/count; done")
	return func(of *box) int {
		// It may just have been emptied to be written anew.
		n, err := strconv.Atoi(of.sh(t, "until grep . /tmp/count; do :; done 2>/dev/null"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// beginCounting is counting, and waits until it counts.
func (s *suite) beginCounting(t *testing.T, b *box) func(*box) int {
	t.Helper()
	count := b.counting(t)
	if !s.eventually(func() bool { return count(b) > 3 }) {
		t.Fatal("it does not count")
	}
	return count
}

// kept is a sandbox with state, and a snapshot of it.
type kept struct {
	*box
	restorer sandbox.Restorer
	dir      string
	most     sandbox.Fidelity // that the driver keeps
	// count is of a process that counts; nil where none does.
	count func(*box) int
}

// restored makes a sandbox of the snapshot.
func (k kept) restored(s *suite, t *testing.T, give sandbox.Fidelity) *box {
	t.Helper()
	instance, err := k.restorer.Restore(s.patient(t), k.dir, give, sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	return s.wrap(t, instance)
}

// prepared takes a snapshot, of all that the driver keeps unless it is told otherwise.
func (s *suite) prepared(t *testing.T, keep sandbox.Fidelity) kept {
	b := s.make(t, sandbox.Spec{})
	snapshotter, restorer := b.Instance.(sandbox.Snapshotter), s.driver.(sandbox.Restorer)
	k := kept{box: b, restorer: restorer, dir: t.TempDir(), most: snapshotter.SnapshotFidelity()}
	if restorer.RestoreFidelity() != k.most {
		t.Errorf("a snapshot keeps %v and a restore gives %v", k.most, restorer.RestoreFidelity())
	}
	b.sh(t, "echo before > /tmp/state")
	if cmp.Or(keep, k.most) != sandbox.Filesystem || s.pauses(t, b) {
		k.count = s.beginCounting(t, b)
	}
	k.take(s, t, cmp.Or(keep, k.most))
	return k
}

// take takes the snapshot. Files are kept by every driver that keeps anything.
func (k kept) take(s *suite, t *testing.T, keep sandbox.Fidelity) {
	t.Helper()
	err := s.soon(func() error { return k.Instance.(sandbox.Snapshotter).Snapshot(s.patient(t), k.dir, keep) })
	class := sandbox.ClassOf(err)
	if err != nil && (class == sandbox.Unavailable || class == sandbox.Unsupported && keep != sandbox.Filesystem) {
		t.Skipf("this host cannot: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// pauses says whether the sandbox can be paused on this host. Files cannot be kept while
// somebody may write them.
func (s *suite) pauses(t *testing.T, b *box) bool {
	t.Helper()
	p, ok := b.Instance.(sandbox.Pauser)
	if !ok || p.Pause(s.patient(t)) != nil {
		return false
	}
	if err := p.Resume(s.patient(t)); err != nil {
		t.Fatal(err)
	}
	return true
}

// restoreFiles wants files, and nothing of the processes.
func (s *suite) restoreFiles(t *testing.T) {
	k := s.prepared(t, sandbox.Filesystem)
	again := k.restored(s, t, sandbox.Filesystem)
	// First, because a command that has just ended may still be listed.
	if list, err := again.Processes(s.patient(t)); err != nil || len(list) > 0 {
		t.Errorf("of files alone came %v, %v", list, err)
	}
	if got := again.sh(t, "cat /tmp/state"); got != "before" {
		t.Errorf("the restored file says %q", got)
	}
	instance, err := k.restorer.Restore(s.patient(t), k.dir, sandbox.Filesystem, sandbox.Spec{Command: sandbox.CommandDefaults{WorkDir: "/usr", Env: map[string]string{"STATED": "anew"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.wrap(t, instance).sh(t, "pwd; echo $STATED; cat /tmp/state"); got != "/usr\nanew\nbefore" {
		t.Errorf("with other defaults it says %q", got)
	}
	if k.count != nil {
		s.goesOn(t, k.box, k.count)
	}
	_, err = k.restorer.Restore(s.patient(t), k.dir, sandbox.Checkpoint, sandbox.Spec{})
	if k.most == sandbox.Filesystem {
		wantClass(t, err, sandbox.Unsupported)
	} else {
		wantClass(t, err, sandbox.Conflict)
	}
}

// filesOfCheckpoint wants the files alone of a snapshot that has memory too.
func (s *suite) filesOfCheckpoint(t *testing.T) {
	k := s.prepared(t, "")
	k.sh(t, "echo after > /tmp/state")
	again := k.restored(s, t, sandbox.Filesystem)
	if got := again.sh(t, "cat /tmp/state"); got != "before" {
		t.Errorf("the restored file says %q", got)
	}
	if list, err := again.Processes(s.patient(t)); err != nil || len(list) > 0 {
		t.Errorf("of files alone came %v, %v", list, err)
	}
}

// filesOfPaused wants the files of a sandbox that was paused, which stays so.
func (s *suite) filesOfPaused(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	pauser, ok := b.Instance.(sandbox.Pauser)
	if !ok {
		t.Skip("the driver's sandboxes cannot be paused")
	}
	b.sh(t, "echo before > /tmp/state")
	if err := pauser.Pause(s.patient(t)); err != nil {
		if class := sandbox.ClassOf(err); class != sandbox.Unavailable && class != sandbox.Unsupported {
			t.Fatal(err)
		}
		t.Skipf("this host cannot: %v", err)
	}
	k := kept{box: b, restorer: s.driver.(sandbox.Restorer), dir: t.TempDir()}
	k.take(s, t, sandbox.Filesystem)
	if err := pauser.Resume(s.patient(t)); err != nil {
		t.Errorf("it was not paused any more: %v", err)
	}
	b.sh(t, "echo after > /tmp/state")
	if got := k.restored(s, t, sandbox.Filesystem).sh(t, "cat /tmp/state"); got != "before" {
		t.Errorf("the restored file says %q", got)
	}
}

// written makes one of each kind of file that a sandbox may write, gives some away where its
// root may, and removes the one of the image that /tmp/victim names; seen tells what of it is
// there.
const (
	written = `set -e; mkdir -p /srv/kinds/deep; cd /srv/kinds; echo text > file; chmod 640 file; ln file deep/hard; ln -s deep/hard soft
mkfifo fifo; touch -d '2020-02-02 02:02:02 UTC' file; chmod 1777 deep; echo över > "na	me é"; rm "$(cat /tmp/victim)"
echo hers > hers; ln -s hers out; chown 1234:4321 hers deep 2>/dev/null && chown -h 1235:4322 out; chmod 751 hers
dd if=/dev/zero of=hole bs=1 count=1 seek=67108864 2>/dev/null`
	seen = `cd /srv/kinds && cat file soft 'na	me é' && stat -c '%a %F %s %Y %h %u %g' file && stat -c '%a %F %u %g' deep fifo hers out && stat -c %s hole &&
test file -ef deep/hard && echo same; test "$(du -k hole | cut -f1)" -lt 1024 && echo sparse; test -e "$(cat /tmp/victim)" || echo gone`
)

// kindsOfFiles wants all that was written, and the absence of what was removed.
func (s *suite) kindsOfFiles(t *testing.T) {
	b := s.make(t, sandbox.Spec{Command: sandbox.CommandDefaults{User: "0"}})
	if out, err := exec(s.patient(t), b.Client, shell("id -u")); err != nil || out.stdout != "0\n" {
		t.Skipf("commands cannot be root's here: %q, %v", out.stdout, err)
	}
	b.sh(t, "for f in /etc/* ; do if [ -f $f ]; then echo $f > /tmp/victim; break; fi; done; test -s /tmp/victim")
	b.sh(t, written)
	k := kept{box: b, restorer: s.driver.(sandbox.Restorer), dir: t.TempDir()}
	want := b.sh(t, seen)
	if !strings.Contains(want, "same\n") || !strings.HasSuffix(want, "gone") {
		t.Fatalf("it has not what was written: %s", want)
	}
	k.take(s, t, sandbox.Filesystem)
	if got := k.restored(s, t, sandbox.Filesystem).sh(t, seen); got != want {
		t.Errorf("it had\n%s\nand the restored one has\n%s", want, got)
	}
}

// fidelity wants what nobody can keep to be refused, and nothing to be left of it.
func (s *suite) fidelity(t *testing.T) {
	b, dir := s.make(t, sandbox.Spec{}), t.TempDir()
	never := []sandbox.Fidelity{"", sandbox.Live, "most"}
	if b.Instance.(sandbox.Snapshotter).SnapshotFidelity() == sandbox.Filesystem {
		never = append(never, sandbox.Checkpoint)
	}
	for _, never := range never {
		wantClass(t, b.Instance.(sandbox.Snapshotter).Snapshot(s.patient(t), dir, never), sandbox.Unsupported)
		_, err := s.driver.(sandbox.Restorer).Restore(s.patient(t), dir, never, sandbox.Spec{})
		wantClass(t, err, sandbox.Unsupported)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("refused snapshots left %v, %v", entries, err)
	}
	b.sh(t, "true")
}

func (s *suite) snapshotRestore(t *testing.T) {
	k := s.prepared(t, "")
	b, count := k.box, k.count
	b.sh(t, "echo after > /tmp/state")
	if count != nil {
		s.goesOn(t, b, count)
	}
	again := k.restored(s, t, k.most)
	if got := again.sh(t, "cat /tmp/state"); got != "before" {
		t.Errorf("the restored file says %q", got)
	}
	if count != nil && k.most != sandbox.Filesystem {
		s.goesOn(t, again, count)
	}
	if got := b.sh(t, "cat /tmp/state"); got != "after" {
		t.Errorf("a restore changed its source: %q", got)
	}
}

// goesOn wants the process that counts to count on, from where it was.
func (s *suite) goesOn(t *testing.T, b *box, count func(*box) int) {
	t.Helper()
	first := count(b)
	if first < 3 {
		t.Errorf("it counts anew, from %d", first)
	}
	if !s.eventually(func() bool { return count(b) > first }) {
		t.Errorf("it stands still at %d", first)
	}
	if list, err := b.Processes(s.patient(t)); err != nil || len(list) == 0 {
		t.Errorf("the service lists %v, %v", list, err)
	}
}

func (s *suite) restoreMany(t *testing.T) {
	k := s.prepared(t, "")
	s.each(t, s.few(4), func(n int) error {
		instance, err := k.restorer.Restore(s.patient(t), k.dir, k.most, sandbox.Spec{})
		if err != nil {
			return err
		}
		b, own := s.wrap(t, instance), strconv.Itoa(n)
		out, err := exec(s.patient(t), b.Client, shell("cat /tmp/state; echo "+own+" > /tmp/own; sleep 0.1; cat /tmp/own"))
		if err == nil && out.stdout != "before\n"+own+"\n" {
			t.Errorf("restored sandbox %s says %q", own, out.stdout)
		}
		return err
	})
	if entries, err := os.ReadDir(k.dir); err != nil || len(entries) == 0 {
		t.Errorf("the snapshot is used up: %v, %v", entries, err)
	}
	_, err := k.restorer.Restore(s.patient(t), t.TempDir(), k.most, sandbox.Spec{})
	wantClass(t, err, sandbox.NotFound, sandbox.Invalid)
}
