package engine_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"aether/engine"
	"aether/engine/access"
	"aether/guest"
	"aether/sandbox"
)

const volumeBytes = 64 << 20

// newVolume makes a volume of alice's, or skips where none can be bounded.
func newVolume(t testing.TB, e *engine.Engine, name string) engine.Volume {
	t.Helper()
	v, err := e.CreateVolume(t.Context(), alice, engine.VolumeRequest{Name: name, Bytes: volumeBytes})
	if sandbox.ClassOf(err) == sandbox.Unsupported {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mounting(name, target string) []engine.VolumeMount {
	return []engine.VolumeMount{{Name: name, Target: target}}
}

// TestVolumeOutlivesSandboxes: two sandboxes, whose ids are not the same on the host, read
// and write the same files, and so does one after a restart.
func TestVolumeOutlivesSandboxes(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	newVolume(t, e, "data")
	first := create(t, e, alice, engine.CreateRequest{Volumes: mounting("data", "/srv/data")}).ID
	second := create(t, e, alice, engine.CreateRequest{Volumes: mounting("data", "/mnt")}).ID
	sh(t, e, alice, first, "echo first > /srv/data/file; mkdir /srv/data/dir; ls -A /srv/data | sort | tr '\\n' ' '")
	sh(t, e, alice, second, "echo second >> /mnt/file; touch /mnt/dir/more; rm -f /mnt/nothing")
	own := sh(t, e, alice, first, "id -u")
	if got, want := sh(t, e, alice, first, "cat /srv/data/file; stat -c %u /srv/data/dir/more"), "first\nsecond\n"+own; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if v, err := e.GetVolume(t.Context(), alice, "", "data"); err != nil || len(v.Sandboxes) != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	wantClass(t, e.DeleteVolume(t.Context(), alice, "", "data"), sandbox.Conflict)

	h.close(e)
	e = h.open()
	third := create(t, e, alice, engine.CreateRequest{Volumes: []engine.VolumeMount{{Name: "data", Target: "/mnt", ReadOnly: true}}}).ID
	if got := sh(t, e, alice, third, "cat /mnt/file; echo x 2>/dev/null > /mnt/file || echo refused"); got != "first\nsecond\nrefused" {
		t.Errorf("after a restart it holds %q", got)
	}
	if err := e.Destroy(t.Context(), alice, third); err != nil {
		t.Fatal(err)
	}
	if err := e.DeleteVolume(t.Context(), alice, "", "data"); err != nil {
		t.Fatal(err)
	}
	_, err := e.GetVolume(t.Context(), alice, "", "data")
	wantClass(t, err, sandbox.NotFound)
	for _, dir := range []string{"volumes", "mounted"} {
		if left, err := os.ReadDir(filepath.Join(h.dir, "state", dir)); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

// TestVolumeIsBounded: whoever fills it is told so at about its size, and the host's disk
// has lost no more.
func TestVolumeIsBounded(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	newVolume(t, e, "small")
	id := create(t, e, alice, engine.CreateRequest{Volumes: mounting("small", "/mnt")}).ID
	said := sh(t, e, alice, id, "dd if=/dev/zero of=/mnt/all bs=64k 2>&1; sync; stat -c %s /mnt/all")
	lines := strings.Split(said, "\n")
	written, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	if err != nil || !strings.Contains(said, "No space left") || written < volumeBytes*85/100 || written > volumeBytes {
		t.Errorf("%s", said)
	}
	disks, err := filepath.Glob(filepath.Join(h.dir, "state/volumes/*/disk"))
	if err != nil || len(disks) != 1 {
		t.Fatalf("%v, %v", disks, err)
	}
	if taken := blocksOf(t, disks[0]); taken > volumeBytes+256<<10 {
		t.Errorf("it takes %d bytes of the host", taken)
	}
}

// blocksOf is what a file takes of the host's disk.
func blocksOf(t testing.TB, name string) int64 {
	t.Helper()
	out, err := exec.Command("du", "--block-size=1", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	taken, err := strconv.ParseInt(strings.Fields(string(out))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// writing is a python that has a file of a volume open, and writes every line to it that
// it finds. It takes the line away before: whoever sees it written may leave the next.
const writing = `
import os, time
os.chdir("/mnt")
log = open("log", "a+")
log.write("begun\n"); log.flush()
n = 0
while True:
    try: line = open("/tmp/say").read()
    except FileNotFoundError: time.sleep(0.01); continue
    os.remove("/tmp/say")
    n += 1
    log.write("%d %s" % (n, line)); log.flush()
`

// TestPauseWithVolume: a python that has a file of a volume open goes on with it, over a
// pause, a restart and a fork, and sees what others have written meanwhile.
func TestPauseWithVolume(t *testing.T) {
	need(t, "python3")
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	newVolume(t, e, "work")
	id := create(t, e, alice, engine.CreateRequest{Volumes: mounting("work", "/mnt"), Keep: true, AutoResume: true}).ID
	startWriting(t, e, id)
	say := func(id, text string) {
		t.Helper()
		sh(t, e, alice, id, fmt.Sprintf("echo %s > /tmp/say.new; mv /tmp/say.new /tmp/say; for i in $(seq 6000); do grep -q %s /mnt/log && exit 0; sleep 0.01; done; cat /mnt/log; exit 1", text, text))
	}
	say(id, "one")
	if _, err := e.Pause(t.Context(), alice, id, ""); err != nil {
		t.Fatal(err)
	}
	wantClass(t, e.DeleteVolume(t.Context(), alice, "", "work"), sandbox.Conflict)
	other := create(t, e, alice, engine.CreateRequest{Volumes: mounting("work", "/w")}).ID
	sh(t, e, alice, other, "echo between >> /w/log")
	say(id, "two") // which resumes it
	h.close(e)
	e = h.open()
	wantClass(t, e.DeleteVolume(t.Context(), alice, "", "work"), sandbox.Conflict)
	say(id, "three")
	children, err := e.Fork(t.Context(), alice, id, engine.ForkRequest{Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	say(children[0].ID, "child")
	if len(children[1].Volumes) != 1 {
		t.Errorf("%+v", children[1])
	}
	want := "begun\n1 one\nbetween\n2 two\n3 three\n4 child"
	if got := sh(t, e, alice, id, "cat /mnt/log"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if v, err := e.GetVolume(t.Context(), alice, "", "work"); err != nil || len(v.Sandboxes) != 3 {
		t.Errorf("%+v, %v", v, err)
	}
}

func startWriting(t testing.TB, e *engine.Engine, id string) {
	t.Helper()
	client, release, err := e.Guest(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	running, err := client.Start(t.Context(), guest.Cmd{Path: "python3", Args: []string{"-c", writing}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.Close() })
	sh(t, e, alice, id, "until grep -q begun /mnt/log; do sleep 0.01; done")
}

// TestVolumesAreTheirTenants: nobody sees, mounts or deletes another's, but for operators.
func TestVolumesAreTheirTenants(t *testing.T) {
	e := newHouse(t, sandbox.Checkpoint).open()
	for _, name := range []string{"b", "a", "c"} {
		if _, err := e.CreateVolume(t.Context(), alice, engine.VolumeRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.CreateVolume(t.Context(), bob, engine.VolumeRequest{Name: "a"}); err != nil {
		t.Errorf("another's name is taken: %v", err)
	}
	_, err := e.CreateVolume(t.Context(), alice, engine.VolumeRequest{Name: "a"})
	wantClass(t, err, sandbox.Conflict)
	for _, tenant := range []string{"", "alice", "bob"} {
		_, err := e.GetVolume(t.Context(), bob, tenant, "c")
		wantClass(t, err, sandbox.NotFound)
		wantClass(t, e.DeleteVolume(t.Context(), bob, tenant, "c"), sandbox.NotFound)
	}
	_, err = e.Create(t.Context(), bob, engine.CreateRequest{Volumes: mounting("c", "/mnt")})
	wantClass(t, err, sandbox.NotFound)

	names, q := "", engine.VolumeQuery{Limit: 2}
	for {
		page, err := e.ListVolumes(t.Context(), root, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Volumes {
			names += v.Tenant + "/" + v.Name + " "
		}
		if q.After = page.Next; page.Next == "" {
			break
		}
	}
	if names != "alice/a alice/b alice/c bob/a " {
		t.Errorf("an operator sees %s", names)
	}
	if page, err := e.ListVolumes(t.Context(), bob, engine.VolumeQuery{Tenant: "alice"}); err != nil || len(page.Volumes) > 0 {
		t.Errorf("%+v, %v", page, err)
	}
	if err := e.DeleteVolume(t.Context(), root, "alice", "c"); err != nil {
		t.Error(err)
	}
}

// TestVolumesAreCounted in the quota of their tenant, also after a restart, and none is
// made that has no bound.
func TestVolumesAreCounted(t *testing.T) {
	h := quotaHouse(t, sandbox.Checkpoint, access.Quota{DiskBytes: new(int64(100 << 20))})
	e := h.open()
	_, err := e.CreateVolume(t.Context(), alice, engine.VolumeRequest{Name: "endless"})
	wantClass(t, err, sandbox.Denied)
	for _, req := range []engine.VolumeRequest{{Name: "No"}, {Name: "tiny", Bytes: 1}, {Name: "less", Bytes: -1}} {
		_, err := e.CreateVolume(t.Context(), alice, req)
		wantClass(t, err, sandbox.Invalid)
	}
	newVolume(t, e, "data")
	h.close(e)
	e = h.open()
	_, err = e.CreateVolume(t.Context(), alice, engine.VolumeRequest{Name: "more", Bytes: volumeBytes})
	wantExhausted(t, err, "quota.disk_bytes")
	if err := e.DeleteVolume(t.Context(), alice, "", "data"); err != nil {
		t.Fatal(err)
	}
	again := engine.VolumeRequest{Name: "more", Bytes: volumeBytes, Key: "k"}
	made, err := e.CreateVolume(t.Context(), alice, again)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := e.CreateVolume(t.Context(), alice, again); err != nil || !same.Created.Equal(made.Created) {
		t.Errorf("with the same key %+v, %v", same, err)
	}
	_, err = e.CreateVolume(t.Context(), alice, engine.VolumeRequest{Name: "most", Bytes: volumeBytes, Key: "k"})
	wantClass(t, err, sandbox.Conflict)
	for _, mounts := range [][]engine.VolumeMount{mounting("more", "/"), mounting("more", "mnt"), append(mounting("more", "/m"), mounting("more", "/m/")...)} {
		_, err := e.Create(t.Context(), alice, engine.CreateRequest{Spec: sandbox.Spec{Limits: sandbox.Limits{DiskBytes: 1 << 20}}, Volumes: mounts})
		wantClass(t, err, sandbox.Invalid)
	}
}

// TestKilledWithVolumes: what a killed engine left mounted is let go, what it was making
// is removed, and what it had made is whole.
func TestKilledWithVolumes(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	newVolume(t, e, "data")
	id := create(t, e, alice, engine.CreateRequest{Volumes: mounting("data", "/mnt")}).ID
	sh(t, e, alice, id, "echo kept > /mnt/file; sync /mnt/file")
	h.close(e)

	state := func(name string) string { return filepath.Join(h.dir, "state", name) }
	half := state("volumes/half")
	if err := os.Mkdir(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "disk"), make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	disks, err := filepath.Glob(state("volumes/*/disk"))
	if err != nil || len(disks) != 2 {
		t.Fatalf("%v, %v", disks, err)
	}
	left := state("mounted/left")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	whole := disks[0]
	if strings.Contains(whole, "half") {
		whole = disks[1]
	}
	if out, err := exec.Command("mount", "-o", "loop", whole, left).CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s", err, out)
	}
	e = h.open()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), h.dir) {
		t.Errorf("still mounted: %v\n%s", err, mounts)
	}
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("what was being made is left: %v", err)
	}
	again := create(t, e, alice, engine.CreateRequest{Volumes: mounting("data", "/mnt")}).ID
	if got := sh(t, e, alice, again, "cat /mnt/file"); got != "kept" {
		t.Errorf("it holds %q", got)
	}
}

// TestVolumeEvents: everybody is told once.
func TestVolumeEvents(t *testing.T) {
	e := newHouse(t, sandbox.Checkpoint).open()
	if _, err := e.CreateVolume(t.Context(), alice, engine.VolumeRequest{Name: "data"}); err != nil {
		t.Fatal(err)
	}
	if err := e.DeleteVolume(t.Context(), alice, "", "data"); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, event := range happened(t, e, alice) {
		got += string(event.Kind) + " " + event.Detail["volume"] + " "
	}
	if got != "volume_created data volume_removed data " {
		t.Errorf("events: %s", got)
	}
}

// TestSnapshotWithVolume: what is made of a snapshot, and a sandbox that is rolled back to
// it, have the volume as it is, with processes that go on with its files.
func TestSnapshotWithVolume(t *testing.T) {
	need(t, "python3")
	e := newHouse(t, sandbox.Checkpoint).open()
	newVolume(t, e, "work")
	id := create(t, e, alice, engine.CreateRequest{Volumes: mounting("work", "/mnt")}).ID
	startWriting(t, e, id)
	snapshot, err := e.Snapshot(t.Context(), alice, id, engine.SnapshotRequest{})
	if err != nil || len(snapshot.Volumes) != 1 {
		t.Fatalf("%+v, %v", snapshot, err)
	}
	say := func(id, text string) {
		t.Helper()
		sh(t, e, alice, id, fmt.Sprintf("echo %s > /tmp/say.new; mv /tmp/say.new /tmp/say; for i in $(seq 6000); do grep -q %s /mnt/log && exit 0; sleep 0.01; done; cat /mnt/log; exit 1", text, text))
	}
	say(id, "source")
	made := create(t, e, alice, engine.CreateRequest{Snapshot: snapshot.ID})
	say(made.ID, "made")
	if _, err := e.Rollback(t.Context(), alice, id, engine.RollbackRequest{Snapshot: snapshot.ID}); err != nil {
		t.Fatal(err)
	}
	say(id, "again")
	if got, want := sh(t, e, alice, id, "cat /mnt/log"), "begun\n1 source\n1 made\n1 again"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if v, err := e.GetVolume(t.Context(), alice, "", "work"); err != nil || len(v.Sandboxes) != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	for _, id := range []string{id, made.ID} {
		if err := e.Destroy(t.Context(), alice, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.DeleteVolume(t.Context(), alice, "", "work"); err != nil {
		t.Fatal(err)
	}
	_, err = e.Create(t.Context(), alice, engine.CreateRequest{Snapshot: snapshot.ID})
	wantClass(t, err, sandbox.NotFound)
}
