package pid1

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"

	"aether/guest"
	"aether/guest/local"
	"aether/internal/host/guestinit"
	"aether/sandbox"
)

const (
	// memoryGoal is what this process keeps to where it can: it takes from what
	// commands may use.
	memoryGoal = 48 << 20
	gcPercent  = 50
	// parallel is how many of its threads run at a time.
	parallel = 4
	// spareThreads are made at the start: commands may use up the limit on processes.
	spareThreads = 16
)

// IsMachine says that the kernel started this process as a machine's init.
func IsMachine() bool { return os.Getpid() == 1 && os.Args[0] == "/init" }

// RunMachine is the whole life of a machine. It returns only if that failed and
// the machine cannot be powered off either.
func RunMachine() error {
	err := runMachine()
	fmt.Fprintln(os.Stderr, "aether-guest:", err)
	return errors.Join(err, guestinit.PowerOff())
}

func runMachine() error {
	if err := guestinit.MountEarly(); err != nil {
		return err
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	c, err := machineConfig(string(line))
	if err != nil {
		return err
	}
	if c.Machine.Awaits {
		return c.await()
	}
	m, err := c.setUp()
	if err != nil {
		return err
	}
	return c.run(m)
}

// setUp brings the machine from a bare kernel to what programs expect.
func (c Config) setUp() (m *made, err error) {
	m = &made{}
	if err := load(c.Machine.Modules); err != nil {
		return nil, err
	}
	if root := c.Machine.Root; root != nil {
		if m.upper, err = guestinit.SwitchRoot(guestinit.Root(*root)); err != nil {
			return nil, err
		}
	}
	if root := c.Machine.Root; root != nil && root.Upper != "" {
		err = guestinit.MountLateOnDisk()
	} else {
		err = guestinit.MountLate(c.Limits.DiskBytes)
	}
	if err != nil {
		return nil, err
	}
	if c.Machine.Hostname != "" {
		if err := guestinit.SetHostname(c.Machine.Hostname); err != nil {
			return nil, err
		}
	}
	if err := guestinit.LoopbackUp(); err != nil {
		return nil, err
	}
	m.group, err = guestinit.MountGroups(c.Limits.Processes)
	return m, err
}

func load(modules []string) error {
	for _, name := range modules {
		if err := guestinit.LoadModule(name); err != nil {
			return err
		}
	}
	return nil
}

// Run serves as the init of a container until its host is gone. Nothing is set
// up: the container's driver did.
func Run(c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Machine != nil {
		return sandbox.Invalidf("machine", "this process is no machine's init")
	}
	if c.Filter != nil {
		if err := guestinit.Filter(c.Filter); err != nil {
			return err
		}
	}
	return c.run(&made{container: true})
}

func (c Config) run(m *made) error {
	settle()
	service, err := c.open(m.group)
	if err != nil {
		return err
	}
	return errors.Join(c.serve(c.handler(service, m)), service.Close())
}

// settle makes this process fit to be the first one.
func settle() {
	debug.SetMemoryLimit(memoryGoal)
	debug.SetGCPercent(gcPercent)
	runtime.GOMAXPROCS(min(parallel, runtime.NumCPU()))
	guestinit.MakeThreads(spareThreads)
	// Caught and dropped, so that a command that signals everybody ends itself and
	// not its sandbox. Ignored ones would be ignored by commands as well.
	signal.Notify(make(chan os.Signal, 1))
}

// open makes the service. It awaits orphans as long as this process lives.
func (c Config) open(group string) (*guest.Service, error) {
	backend, err := local.New("/", group)
	if err != nil {
		return nil, err
	}
	if err := backend.AsInit(); err != nil {
		return nil, err
	}
	if c.GuardedMemory > 0 {
		if err := backend.GuardMemory(c.GuardedMemory); err != nil {
			return nil, err
		}
	}
	service, err := guest.New(backend, c.options())
	if err != nil {
		return nil, err
	}
	if err := guestinit.Hide(); err != nil {
		return nil, errors.Join(err, service.Close())
	}
	return service, nil
}
