package vmm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/internal/host/cgroup"
	"aether/sandbox"
)

// greeted is a monitor that can be greeted, and no more.
type greeted struct {
	Monitor
	dial Dial
}

func (g greeted) Close() {}

func (g greeted) Hello(ctx context.Context) error {
	conn, err := g.dial(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // the read says it
	defer stop()
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		return err
	}
	if answer, err := bufio.NewReader(conn).ReadString('\n'); err != nil || answer != "ok\n" {
		return errors.Join(fmt.Errorf("it answers %q", answer), err)
	}
	return nil
}

// build builds a program of ours, unless the lab has it.
func build(t *testing.T, variable, pkg string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("%s names no program, and this host has no go to build one: %v", variable, err)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// newWarmEngine is an engine of a system whose monitors wait, with a program of ours.
func newWarmEngine(t *testing.T, path string) *engine {
	t.Helper()
	device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this host has no KVM, which monitors wait with: %v", err)
	}
	device.Close()
	e := &engine{opts: Options{RunDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, program: program{path: path}}
	e.system = System{Name: "warm", Handed: true, Environment: []string{"GODEBUG=disablethp=1"},
		Monitor: func(dial Dial) Monitor { return greeted{dial: dial} },
		Inherit: func(_ Hardware, has Descriptors) []string {
			return []string{"-control", strconv.Itoa(has[Socket]), "-guest", strconv.Itoa(has[Vsock]), "-kvm", strconv.Itoa(has[KVM])}
		}}
	if err := e.openGroups(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := e.warm.close(context.Background())
		if e.groups != nil {
			err = errors.Join(err, e.groups.Close(context.Background()))
		}
		if err != nil {
			t.Error(err)
		}
		if n, err := cgroup.Reap(context.Background(), e.opts.RunDir); n != 0 || err != nil {
			t.Errorf("%d groups are left, %v", n, err)
		}
	})
	return e
}

// waiting gives the monitors that wait, once there are so many.
func waiting(t *testing.T, e *engine, want int) []*warmMonitor {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		e.warm.mu.Lock()
		list, looking := append([]*warmMonitor(nil), e.warm.list...), e.warm.looking
		e.warm.mu.Unlock()
		if len(list) == want && !looking {
			return list
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d wait, and not %d", len(list), want)
		}
	}
}

// taken is a machine with a monitor.
func taken(t *testing.T, e *engine, spec sandbox.Spec) *machine {
	t.Helper()
	defer e.warm.needed(e)()
	m := e.newMachine(spec, Hardware{MemoryMiB: 160, CPUs: 1}, origin{}, nil)
	if err := m.takeWarm(t.Context(), func(workplace) error { return nil }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.release(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// field is what /proc says of a process.
func field(t *testing.T, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n"+name+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// TestWarmMonitors: once a machine was made, monitors wait, each as a user and in a group of its own,
// in a jail and confined, with nothing but sockets, pipes and the device. The next machine has
// one of them, under its own limits, and no other machine has it.
func TestWarmMonitors(t *testing.T) {
	e := newWarmEngine(t, build(t, "AETHER_VMM", "aether/cmd/aether-vmm"))
	if got := waiting(t, e, 0); len(got) != 0 {
		t.Errorf("%d wait before there was a machine", len(got))
	}
	first := taken(t, e, sandbox.Spec{})
	users := map[string]bool{}
	pids := map[int]bool{}
	for _, s := range waiting(t, e, leastWarm) {
		pid := s.process.pid
		if pid == first.process.pid || users[field(t, pid, "Uid")] && os.Geteuid() == 0 {
			t.Errorf("process %d is another's, or its user", pid)
		}
		users[field(t, pid, "Uid")], pids[pid] = true, true
		for name, want := range map[string]string{"Seccomp": "2", "NoNewPrivs": "1", "CapEff": "0000000000000000"} {
			if got := field(t, pid, name); got != want {
				t.Errorf("%s of one that waits is %s", name, got)
			}
		}
		if entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/root", pid)); err != nil || len(entries) > 0 {
			t.Errorf("one that waits sees %v, %v", entries, err)
		}
		wantFew(t, pid)
	}
	e.warm.mu.Lock()
	e.warm.making++ // so that none is started in their place meanwhile, however slow the host is
	e.warm.mu.Unlock()
	for range leastWarm {
		m := taken(t, e, sandbox.Spec{Limits: sandbox.Limits{CPUs: 0.5}})
		if !pids[m.process.pid] {
			t.Errorf("process %d did not wait", m.process.pid)
		}
		delete(pids, m.process.pid)
		wantLimits(t, e, m)
	}
	e.warm.mu.Lock()
	e.warm.making--
	e.warm.lookAfter(e, calmTime)
	e.warm.mu.Unlock()
	next := waiting(t, e, leastWarm)
	for _, s := range next {
		if pids[s.process.pid] {
			t.Error("one waits that was taken")
		}
	}
}

// wantFew wants a process to have no file.
func wantFew(t *testing.T, pid int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 6 {
		t.Fatalf("%d descriptors, %v", len(entries), err)
	}
	for _, entry := range entries {
		to, err := os.Readlink(filepath.Join(dir, entry.Name()))
		kind, _, _ := strings.Cut(to, ":[")
		switch kind {
		case "socket", "pipe", "/dev/kvm", "/dev/null":
		default:
			if !strings.HasPrefix(kind, "anon_inode") { // of KVM, and what it waits by
				t.Errorf("one that waits has %s, %v", to, err)
			}
		}
	}
}

// wantLimits wants the limits of a machine to hold for its monitor.
func wantLimits(t *testing.T, e *engine, m *machine) {
	t.Helper()
	if e.groups == nil {
		t.Logf("no groups here: %v", e.unlimited)
		return
	}
	held := e.hierarchy.Holds()
	for _, c := range []struct {
		of              cgroup.Controller
		legacy, unified string
		want            string
	}{
		{cgroup.Memory, "memory/%s/memory.limit_in_bytes", "%s/memory.max", strconv.Itoa(2*160*mebibyte + overhead)},
		{cgroup.Pids, "pids/%s/pids.max", "%s/pids.max", strconv.Itoa(maxThreads + 1)},
		{cgroup.CPU, "cpu/%s/cpu.cfs_quota_us", "%s/cpu.max", "50000"},
	} {
		if held&c.of == 0 {
			continue
		}
		if got := limitOf(t, m.process.pid, c.legacy, c.unified); got != c.want {
			t.Errorf(c.legacy+" says %s, and not %s", "its group", got, c.want)
		}
	}
}

// limitOf reads a limit of the group that a process is in, of either version.
func limitOf(t *testing.T, pid int, legacy, unified string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	controller, _, _ := strings.Cut(legacy, "/")
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		name := ""
		switch parts[1] {
		case controller:
			name = fmt.Sprintf(legacy, parts[2])
		case "":
			name = fmt.Sprintf(unified, parts[2])
		}
		if found, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", name)); name != "" && err == nil {
			return strings.Fields(string(found))[0]
		}
	}
	t.Fatalf("no %s in\n%s", controller, text)
	return ""
}

// TestWarmMonitorsThatEnded: one that was killed while it waited, or whose program is another now, is
// handed to nobody.
func TestWarmMonitorsThatEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	copyProgram(t, build(t, "AETHER_VMM", "aether/cmd/aether-vmm"), path)
	e := newWarmEngine(t, path)
	taken(t, e, sandbox.Spec{})
	old := map[int]bool{}
	for _, s := range waiting(t, e, leastWarm) {
		old[s.process.pid] = true
		if err := s.process.end(); err != nil {
			t.Fatal(err)
		}
	}
	if m := taken(t, e, sandbox.Spec{}); old[m.process.pid] || m.monitor.Hello(t.Context()) != nil {
		t.Error("one that was killed was handed out")
	}
	for _, s := range waiting(t, e, leastWarm) {
		old[s.process.pid] = true
	}
	copyProgram(t, path, path+".next")
	if err := os.Rename(path+".next", path); err != nil {
		t.Fatal(err)
	}
	if m := taken(t, e, sandbox.Spec{}); old[m.process.pid] {
		t.Error("one of the program before was handed out")
	}
	for _, s := range waiting(t, e, leastWarm) {
		if old[s.process.pid] {
			t.Error("one of the program before waits")
		}
	}
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestWarmMonitorsAreClosed: a driver that is closed has none, and starts no more, whatever it was about
// to do.
func TestWarmMonitorsAreClosed(t *testing.T) {
	path := build(t, "AETHER_VMM", "aether/cmd/aether-vmm")
	for _, after := range []time.Duration{0, calmTime, calmTime + 10*time.Millisecond, calmTime + 50*time.Millisecond, 2 * time.Second} {
		e := newWarmEngine(t, path)
		m := taken(t, e, sandbox.Spec{})
		time.Sleep(after)
		e.warm.mu.Lock()
		list := append([]*warmMonitor(nil), e.warm.list...)
		e.warm.mu.Unlock()
		if err := e.warm.close(t.Context()); err != nil {
			t.Error(err)
		}
		for _, s := range list {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", s.process.pid)); !os.IsNotExist(err) {
				t.Errorf("after %v: process %d is left, %v", after, s.process.pid, err)
			}
		}
		started := e.count.Load()
		e.warm.needed(e)()
		time.Sleep(2 * calmTime)
		if s := e.warm.next(); s != nil || e.count.Load() != started && e.groups != nil {
			t.Errorf("after %v: one waits in a driver that is closed", after)
		}
		if err := m.release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestWarmMonitorsForABurst: as many wait as were needed at once, for a while, and none when nobody
// needs one for long.
func TestWarmMonitorsForABurst(t *testing.T) {
	now := time.Now()
	var w warmPool
	ended := make(chan struct{})
	for _, step := range []struct {
		after       time.Duration
		taken, want int
	}{
		{0, 1, leastWarm}, {time.Second, 5, 5}, {time.Second, 1, 5}, {time.Second, 100, mostWarm}, {burstTime - 1, 2, mostWarm}, {1, 0, leastWarm},
		{idleTime, 0, 0}, {1, 1, leastWarm},
	} {
		now = now.Add(step.after)
		if step.taken > 0 {
			w.used, w.taken = now, step.taken
		}
		want, surplus := w.judge(now)
		if want != step.want || len(w.list) > want {
			t.Errorf("after %d were taken %d are to wait, and %d do; want %d", step.taken, want, len(w.list), step.want)
		}
		if had := len(surplus) + len(w.list); had > mostWarm {
			t.Errorf("%d were there", had)
		}
		for len(w.list) < want {
			w.list = append(w.list, &warmMonitor{process: &process{ended: ended}})
		}
	}
	close(ended)
	if _, surplus := w.judge(now); len(surplus) != leastWarm || len(w.list) != 0 {
		t.Errorf("%d of those that have ended wait", len(w.list))
	}
}

// TestEscapeFromAWarmMonitor: a program that waits as a monitor does, and was taken over, can do none of
// what would lead further: it is confined before it answers.
func TestEscapeFromAWarmMonitor(t *testing.T) {
	e := newWarmEngine(t, build(t, "AETHER_TEST_ESCAPE", "aether/internal/vm/monitor/testdata/escape"))
	s, err := e.startMonitor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.process.ended:
	case <-time.After(patience):
		t.Error("it does not end")
	}
	if said, _ := s.process.console.end(); string(said) != "tried 39\n" || s.process.err != nil {
		t.Errorf("%s, %v (%s)", said, s.process.err, s.process.messages)
	}
	if err := s.end(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWarmMonitorsThatCannotStart: a program that is no monitor is told of once, and whoever needs a
// machine is told why there is none.
func TestWarmMonitorsThatCannotStart(t *testing.T) {
	e := newWarmEngine(t, "/bin/false")
	var told strings.Builder
	e.opts.Logger = slog.New(slog.NewTextHandler(&told, nil))
	for range 2 {
		m := e.newMachine(sandbox.Spec{}, Hardware{MemoryMiB: 160, CPUs: 1}, origin{}, nil)
		if err := m.takeWarm(t.Context(), func(workplace) error { return nil }); err == nil {
			t.Error("it is taken for a monitor")
		}
		if err := m.release(t.Context()); err != nil {
			t.Error(err)
		}
		e.warm.needed(e)()
		e.look()
	}
	if err := e.warm.close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := strings.Count(told.String(), "no monitor can be started ahead"); got != 1 {
		t.Errorf("told %d times: %s", got, told.String())
	}
}
