package local

import (
	"os"
	"strconv"
	"strings"
	"time"

	"aether/internal/host/proctree"
	"aether/internal/host/sysinfo"
)

const (
	// fillRate is how many bytes processes are taken to fill in a second at most:
	// the less is left, the sooner it is looked at again.
	fillRate   = 4 << 30
	soonest    = 2 * time.Millisecond
	latest     = 250 * time.Millisecond
	reliefTime = time.Second
)

// GuardMemory keeps what all processes use together below a bound by killing the
// largest, in a sandbox whose kernel counts memory and kills nobody, as gVisor's.
// It works until this process ends.
func (b *Backend) GuardMemory(bound int64) error {
	if _, err := inUse(); err != nil {
		return err
	}
	go b.guard(bound)
	return nil
}

func (b *Backend) guard(bound int64) {
	for {
		used, err := inUse()
		if err == nil && used > bound && b.killLargest() {
			awaitRelief(bound, used)
			continue
		}
		time.Sleep(pace(bound - used))
	}
}

// awaitRelief waits for the killed to give memory back, unless others go on taking
// more.
func awaitRelief(bound, before int64) {
	for deadline := time.Now().Add(reliefTime); time.Now().Before(deadline); time.Sleep(soonest) {
		if used, err := inUse(); err == nil && (used <= bound || used > before+bound/16) {
			return
		}
	}
}

func pace(left int64) time.Duration {
	return min(max(time.Duration(left/(fillRate/1000))*time.Millisecond, soonest), latest)
}

func inUse() (int64, error) {
	total, free, err := sysinfo.Memory()
	return total - free, err
}

// killLargest kills the process with the most memory, other than this one, and
// says whether there was any.
func (b *Backend) killLargest() bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	victim, most := 0, int64(0)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if pages := residentPages(pid); pages > most {
			victim, most = pid, pages
		}
	}
	if victim == 0 || proctree.Kill(victim) != nil {
		return false
	}
	b.guarded.Add(1)
	return true
}

// residentPages is zero for a process that has just ended.
func residentPages(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages
}
