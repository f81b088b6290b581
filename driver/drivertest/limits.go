package drivertest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"
)

func (s *suite) limits() []test {
	return []test{{"memory", s.memoryLimit}, {"processes", s.processLimit}, {"fork bomb", s.forkBomb}, {"cpu", s.cpuLimit}, {"disk", s.diskLimit},
		{"disk read rate", s.readRate}, {"disk write rate", s.writeRate}}
}

// hungry takes memory until it is stopped.
var hungry = guest.Cmd{Path: "tail", Args: []string{"/dev/zero"}}

// memoryLimit goes beyond the limit. The hungry command must be the one to go,
// and the sandbox must say why.
func (s *suite) memoryLimit(t *testing.T) {
	limit := s.Config.memory()
	b := s.offered(t, sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: limit}})
	bystander := b.start(t, "exec sleep 2000")
	got, err := exec(s.patient(t), b.Client, hungry)
	if err != nil || got.Signal != syscall.SIGKILL && got.Code == 0 {
		t.Fatalf("%+v, %v: a command had more memory than its sandbox", got, err)
	}
	stats, err := b.Stats(s.patient(t))
	if err != nil {
		t.Fatal(err)
	}
	if !got.OutOfMemory && !slices.Contains(stats.Reached(), "memory") {
		t.Errorf("%+v, %+v: nobody says that memory was short", got.Status, stats)
	}
	if stats.MemoryPeakBytes != nil && *stats.MemoryPeakBytes > limit+limit/8 {
		t.Errorf("it had %d bytes, and the limit is %d", *stats.MemoryPeakBytes, limit)
	}
	if err := bystander.Signal(s.patient(t), 0); sandbox.ClassOf(err) == sandbox.NotFound {
		t.Error("another command was killed")
	}
	b.sh(t, "true")
}

// processLimit starts more than are allowed, and counts.
func (s *suite) processLimit(t *testing.T) {
	const most = 24
	b := s.offered(t, sandbox.Spec{Limits: sandbox.Limits{Processes: most}})
	got, err := exec(s.patient(t), b.Client, shell(fmt.Sprintf(
		"for i in $(seq %d); do sleep 1000 >/dev/null 2>&1 & done; exit 0", most+s.Overhead+8)))
	if err == nil && !strings.Contains(strings.ToLower(got.stderr), "fork") {
		t.Errorf("%+v: nothing was refused", got)
	}
	// The service has to outlive what its commands do.
	s.each(t, 32, func(int) error {
		_, err := b.Stat(s.patient(t), "/tmp")
		return err
	})
	// No command may have room to start now, so the driver is asked, if it knows.
	stats, err := b.Stats(s.patient(t))
	if err != nil {
		t.Fatal(err)
	}
	if stats.Processes != nil && *stats.Processes > int64(most+s.Overhead) {
		t.Errorf("%d processes live, and the limit is %d", *stats.Processes, most)
	}
	if stats.ForksDenied != nil && *stats.ForksDenied == 0 {
		t.Error("the driver counts no fork that was denied")
	}
}

func (s *suite) forkBomb(t *testing.T) {
	b := s.offered(t, sandbox.Spec{Limits: sandbox.Limits{Processes: 48}})
	b.start(t, "b() { b | b & wait; }; while true; do b; done")
	time.Sleep(s.within(300 * time.Millisecond))
	stats, err := b.Stats(s.patient(t))
	if err != nil || stats.Processes != nil && *stats.Processes > int64(48+s.Overhead) {
		t.Errorf("%+v, %v", stats, err)
	}
	began := time.Now()
	b.destroy(t)
	if took := time.Since(began); took > s.within(30*time.Second) {
		t.Errorf("its end took %v", took)
	}
}

func (s *suite) cpuLimit(t *testing.T) {
	const share = 0.25
	b := s.offered(t, sandbox.Spec{Limits: sandbox.Limits{CPUs: share}})
	for range 2 {
		b.start(t, "while :; do :; done")
	}
	// A busy host may give less than the share, and let this program wait between its looks
	// at the clock and at the sandbox. What the host itself was not given may count as used by
	// who had the processor: that is made up for later, so that all of the time counts.
	began, first, got := time.Now(), s.cpuTime(t, b), 1.0
	for range 10 {
		time.Sleep(s.within(time.Second))
		used := s.cpuTime(t, b) - first
		if got = used.Seconds() / time.Since(began).Seconds(); got <= share*1.5 {
			break
		}
	}
	if got > share*1.5 {
		t.Errorf("it had %.2f of a CPU, want %.2f", got, share)
	}
	if !s.eventually(func() bool { return s.cpuTime(t, b) > first }) {
		t.Error("it has no time of a CPU at all")
	}
}

func (s *suite) cpuTime(t *testing.T, b *box) time.Duration {
	t.Helper()
	stats, err := b.Stats(s.patient(t))
	if err != nil {
		t.Fatal(err)
	}
	if stats.CPUTime == nil {
		t.Skip("the driver does not know the time used")
	}
	return *stats.CPUTime
}

// diskLimit fills every place that can be written.
func (s *suite) diskLimit(t *testing.T) {
	const limit = 4 << 20
	b := s.offered(t, sandbox.Spec{Limits: sandbox.Limits{DiskBytes: limit}})
	for name, script := range map[string]string{
		"home":          "head -c 32M /dev/zero > $HOME/file",
		"tmp":           "head -c 32M /dev/zero > /tmp/file",
		"shared memory": "test -d /dev/shm || exit 1; head -c 32M /dev/zero > /dev/shm/file",
	} {
		got, err := exec(s.patient(t), b.Client, shell(script))
		if err != nil || got.Code == 0 {
			t.Errorf("%s: %+v, %v: it had more room than its sandbox", name, got, err)
		}
		b.sh(t, "rm -f $HOME/file /tmp/file /dev/shm/file; echo small > /tmp/again")
	}
	err := b.Write(s.patient(t), "/tmp/upload", strings.NewReader(strings.Repeat("x", 4*limit)))
	wantClass(t, err, sandbox.Exhausted)
	if got := b.sh(t, "ls /tmp | grep -c upload || true"); got != "0" {
		t.Error("a part of the upload is left")
	}
}

// rate is one at which rateBytes take seconds.
const (
	rate      = 1 << 20
	rateBytes = 4 << 20
	rateTime  = 3 * time.Second
)

// rated makes a sandbox that writes to disk, with a rate that it must be held to, or
// none where that is refused by name.
func (s *suite) rated(t *testing.T, limits sandbox.Limits, field string) *box {
	t.Helper()
	b, err := s.try(t, sandbox.Spec{Limits: limits})
	if err == nil && TempInMemory() {
		t.Skipf("%s is in memory, so that nothing of a sandbox is on a disk", os.TempDir())
	}
	if err == nil {
		return b
	}
	class := sandbox.ClassOf(err)
	if class != sandbox.Unsupported && class != sandbox.Unavailable {
		t.Fatalf("create: %v", err)
	}
	limits.DiskBacked = false
	if _, err := s.try(t, sandbox.Spec{Limits: limits}); err == nil || !namesField(err, field) {
		t.Errorf("it is neither held nor refused as %s: %v", field, err)
	}
	if class == sandbox.Unavailable {
		t.Skipf("this host cannot hold it: %v", err)
	}
	return nil // it is refused by name, which is all that is asked of the driver
}

// TempInMemory says whether the temporary directory, in which drivers under test keep
// what sandboxes write, is on no disk. Rates of disks are not tried then.
func TempInMemory() bool {
	dir := os.TempDir()
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return false // no Linux, and none of its file systems
	}
	longest, kind := 0, ""
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && len(fields[1]) >= longest && strings.HasPrefix(dir+"/", strings.TrimSuffix(fields[1], "/")+"/") {
			longest, kind = len(fields[1]), fields[2]
		}
	}
	return kind == "tmpfs"
}

// readRate reads past all caches, so that only the disk can answer.
func (s *suite) readRate(t *testing.T) {
	b := s.rated(t, sandbox.Limits{DiskBacked: true, DiskReadRate: rate}, "limits.disk_read_rate")
	if b == nil {
		return
	}
	b.sh(t, fmt.Sprintf("head -c %d /dev/zero > $HOME/file; sync", rateBytes))
	began := time.Now()
	b.sh(t, "dd if=$HOME/file of=/dev/null bs=128k iflag=direct 2>/dev/null")
	if took := time.Since(began); took < rateTime {
		t.Errorf("%d bytes at %d a second were read in %v", rateBytes, rate, took)
	}
}

// writeRate writes as most programs do, and counts what has reached the disk.
func (s *suite) writeRate(t *testing.T) {
	b := s.rated(t, sandbox.Limits{DiskBacked: true, DiskWriteRate: rate}, "limits.disk_write_rate")
	if b == nil {
		return
	}
	began := time.Now()
	b.sh(t, fmt.Sprintf("head -c %d /dev/zero > $HOME/file; sync", rateBytes))
	if took := time.Since(began); took < rateTime {
		t.Errorf("%d bytes at %d a second were written in %v", rateBytes, rate, took)
	}
}

func (s *suite) stats() []test {
	return []test{{"grow with use", s.statsGrow}, {"unknown is absent", s.statsAbsent}}
}

func (s *suite) statsGrow(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	before, err := b.Stats(s.patient(t))
	if err != nil {
		t.Fatal(err)
	}
	b.sh(t, "head -c 3M /dev/zero > $HOME/file; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done")
	b.start(t, "exec sleep 2000")
	after, err := b.Stats(s.patient(t))
	if err != nil {
		t.Fatal(err)
	}
	if before.CPUTime != nil && *after.CPUTime <= *before.CPUTime {
		t.Errorf("CPU time: %v, then %v", *before.CPUTime, *after.CPUTime)
	}
	if before.Processes != nil && *after.Processes <= *before.Processes {
		t.Errorf("processes: %d, then %d", *before.Processes, *after.Processes)
	}
	if before.DiskBytes != nil && *after.DiskBytes < *before.DiskBytes+3<<20 {
		t.Errorf("disk: %d bytes, then %d", *before.DiskBytes, *after.DiskBytes)
	}
}

// statsAbsent: a living sandbox that uses nothing does not exist, so a zero is a
// value that is not known.
func (s *suite) statsAbsent(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	b.sh(t, "true")
	stats, err := b.Stats(s.patient(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]*int64{"memory": stats.MemoryBytes, "memory peak": stats.MemoryPeakBytes, "processes": stats.Processes, "disk free": stats.DiskFreeBytes} {
		if value != nil && *value <= 0 {
			t.Errorf("%s is %d", name, *value)
		}
	}
	if stats.CPUTime != nil && *stats.CPUTime <= 0 {
		t.Errorf("CPU time is %v", *stats.CPUTime)
	}
	if reached := stats.Reached(); len(reached) > 0 {
		t.Errorf("a fresh sandbox has reached %q", reached)
	}
}

func (s *suite) together() []test {
	return []test{{"many commands", s.manyCommands}, {"many sandboxes", s.manySandboxes}}
}

func (s *suite) manyCommands(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	s.each(t, s.few(48), func(n int) error {
		out, err := exec(s.patient(t), b.Client, shell(fmt.Sprintf("echo begin; sleep 0.0%d; echo %d", n%10, n)))
		if want := "begin\n" + strconv.Itoa(n) + "\n"; err == nil && out.stdout != want {
			return fmt.Errorf("command %d says %q, want %q", n, out.stdout, want)
		}
		return err
	})
}

func (s *suite) manySandboxes(t *testing.T) {
	s.each(t, s.few(12), func(n int) error {
		b, err := s.try(t, sandbox.Spec{})
		if err != nil {
			return err
		}
		name := fmt.Sprint(n)
		out, err := exec(s.patient(t), b.Client, shell("echo "+name+" > /tmp/name; sleep 0.1; cat /tmp/name"))
		if err == nil && strings.TrimSpace(out.stdout) != name {
			return fmt.Errorf("sandbox %s says %q", name, out.stdout)
		}
		return errors.Join(err, b.Destroy(t.Context()))
	})
}

// each calls do for every number at the same time and reports all failures.
func (s *suite) each(t *testing.T, count int, do func(n int) error) {
	t.Helper()
	failures := make(chan error, count)
	for n := range count {
		go func() { failures <- do(n) }()
	}
	for range count {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
}
