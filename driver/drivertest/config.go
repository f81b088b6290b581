package drivertest

import (
	"time"

	"aether/sandbox"
)

// Config says which driver is tested and what to expect of its speed.
type Config struct {
	// New makes a driver that keeps locks and the like in dir, which exists and is
	// the test's own. It is also called by Main, in another process.
	New func(dir string) sandbox.Driver
	// Image is what sandboxes are made of: any with a shell and the usual small
	// programs. Empty is the host's own system.
	Image string
	// Pace stretches every time that a test gives: 1, which zero means, is for drivers that make a
	// sandbox in less than a tenth of a second; emulated machines need 20 or more.
	// From 5 on the tests make do with fewer sandboxes.
	Pace float64
	// Memory is the limit for the test of that; zero is 96 MiB.
	Memory int64
	// Overhead is how many processes the system itself may have in a sandbox
	// beyond the limit on them.
	Overhead int
	// Left, if set, lists what the driver's system holds on the host beyond what
	// the suite can see (containers of a daemon, machines), for the test of leaks.
	Left func() ([]string, error)
	// Weaknesses are tests of the group neighbours that this driver's system cannot pass,
	// by their names, and why. The suite wants each to be so; the driver's page says it.
	Weaknesses map[string]string
}

// slow says that sandboxes are dear.
func (c Config) slow() bool { return c.Pace >= 5 }

// within stretches a time that has to pass.
func (c Config) within(d time.Duration) time.Duration {
	if c.Pace == 0 {
		return d
	}
	return time.Duration(c.Pace * float64(d))
}

// patience bounds everything that has to happen, so that a driver that hangs fails. It is
// long: hosts may be many times slower than usual for a while, and nobody waits for it unless
// a test fails.
func (c Config) patience() time.Duration { return max(2*time.Minute, c.within(20*time.Second)) }

// hastyVariable is set where tests are to fail: they wait as long as hastyTime for what does
// not come then.
const (
	hastyVariable = "AETHER_DRIVERTEST_HASTY"
	hastyTime     = 5 * time.Second
)

// few is a number of sandboxes, or a quarter of it if they are dear.
func (c Config) few(n int) int {
	if c.slow() {
		return max(n/4, 1)
	}
	return n
}

func (c Config) memory() int64 {
	if c.Memory > 0 {
		return c.Memory
	}
	return 96 << 20
}
