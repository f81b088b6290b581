package monitor

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"aether/internal/host/blocklayer"
	"aether/internal/host/guestmem"
	"aether/internal/vm"
)

// Version is what the program says it is. A state that one version has saved another may
// refuse.
const Version = "1"

// options are what the process is started with: numbers of descriptors. What its machine is
// like, and is made of, it is told later.
type options struct {
	version             bool
	control, guest, kvm int
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("aether-vmm", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.BoolVar(&o.version, "version", false, "")
	f.IntVar(&o.control, "control", 0, "")
	f.IntVar(&o.guest, "guest", 0, "")
	f.IntVar(&o.kvm, "kvm", 0, "")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || !o.version && (o.control < 3 || o.guest < 3 || o.kvm < 3) {
		return o, errors.New("it is started by aether, and by nobody else")
	}
	return o, nil
}

// process is the machine and those who talk to it.
type process struct {
	kvm     *os.File
	board   *vm.Board // for its machine; nil once it has been used
	console io.Writer
	errors  io.Writer
	// mu is held while the machine is made, and by each request.
	mu      sync.Mutex
	machine *vm.Machine // nil before there is one
	layers  *guestmem.Layers
	// writable is its second disk; nil is none.
	writable *blocklayer.Disk
	paused   bool
	over     chan error
}

// Run is the life of the process: until the machine ends, or whoever started it does.
func Run(args []string, console, messages io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.version {
		_, err := fmt.Fprintln(console, "aether-vmm", Version)
		return err
	}
	p := &process{kvm: os.NewFile(uintptr(o.kvm), "kvm"), console: console, errors: messages, over: make(chan error, 1)}
	control, err := connection(o.control)
	if err != nil {
		return err
	}
	guest, err := connection(o.guest)
	if err != nil {
		return err
	}
	// Before it is handed anything of a machine's, for whom it may wait.
	if err := confine(); err != nil {
		return err
	}
	if p.board, err = vm.Prepare(p.kvm); err != nil {
		return err
	}
	go p.connectAll(guest)
	go func() { p.over <- p.serve(control) }()
	return <-p.over
}

// connection is an inherited socket.
func connection(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "socket")
	conn, err := net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("descriptor %d is no socket of ours", fd), conn.Close())
	}
	return unix, nil
}

// sized is a file with its size.
type sized struct {
	*os.File
	size int64
}

func (s sized) Size() int64 { return s.size }

func sizedFile(file *os.File) (sized, error) {
	info, err := file.Stat()
	if err != nil {
		return sized{}, err
	}
	return sized{file, info.Size()}, nil
}

// make makes a machine, over the disk of its root file system. It is the process's once it
// starts. What it writes to memory that it boots in is in a file that it has alone, and need not
// be watched, which takes pages of 4 KiB.
func (p *process) make(memory *guestmem.Memory, watched bool, cpus int, disk *os.File) (*vm.Machine, error) {
	root, err := sizedFile(disk)
	if err != nil {
		return nil, err
	}
	c := vm.Config{KVM: p.kvm, Board: p.board, Memory: memory, Watched: watched, CPUs: cpus, Disk: root, Console: p.console}
	if p.writable != nil { // and no interface that holds none
		c.Writable = p.writable
	}
	p.board = nil
	return vm.New(c)
}

// start lets the machine run, and the process end with it.
func (p *process) start(machine *vm.Machine) {
	p.machine = machine
	machine.Start()
	go func() {
		err := machine.Wait()
		if errors.Is(err, vm.ErrOff) || errors.Is(err, vm.ErrReset) {
			_, _ = fmt.Fprintln(p.errors, "aether-vmm:", err) // nobody may be left to hear it
			err = nil
		}
		p.over <- err
	}()
}
