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

// options are what the process is started with: numbers of descriptors, of which zero is
// none, and what the machine is like.
type options struct {
	version                 bool
	control, guest, kvm     int
	kernel, initramfs, disk int
	memoryFile              int // of a machine that boots
	base, upper             int // of its writable disk, if it has one
	memory                  int64
	cpus                    int
	words                   string
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("aether-vmm", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.BoolVar(&o.version, "version", false, "")
	for name, to := range map[string]*int{"control": &o.control, "guest": &o.guest, "kvm": &o.kvm, "kernel": &o.kernel, "initramfs": &o.initramfs,
		"disk": &o.disk, "memory-file": &o.memoryFile, "base": &o.base, "upper": &o.upper, "cpus": &o.cpus} {
		f.IntVar(to, name, 0, "")
	}
	f.Int64Var(&o.memory, "memory", 0, "")
	f.StringVar(&o.words, "words", "", "")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || !o.version && (o.control < 3 || o.guest < 3 || o.kvm < 3 || o.disk < 3 || o.cpus < 1 || o.memory < 1 || (o.kernel != 0) != (o.memoryFile != 0) || (o.base != 0) != (o.upper != 0)) {
		return o, errors.New("it is started by aether, and by nobody else")
	}
	return o, nil
}

// process is the machine and those who talk to it.
type process struct {
	options
	kvmFile, disk *os.File
	console       io.Writer
	errors        io.Writer
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
	p := &process{options: o, console: console, errors: messages, over: make(chan error, 1)}
	p.kvmFile, p.disk = os.NewFile(uintptr(o.kvm), "kvm"), os.NewFile(uintptr(o.disk), "disk")
	control, err := connection(o.control)
	if err != nil {
		return err
	}
	guest, err := connection(o.guest)
	if err != nil {
		return err
	}
	if o.kernel != 0 {
		if err := p.boot(); err != nil {
			return err
		}
	}
	if err := confine(); err != nil {
		return err
	}
	if p.machine != nil {
		p.start()
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

func (p *process) make(memory *guestmem.Memory, cpus int) error {
	disk, err := sizedFile(p.disk)
	if err != nil {
		return err
	}
	c := vm.Config{KVM: p.kvmFile, Memory: memory, CPUs: cpus, Disk: disk, Console: p.console}
	if p.writable != nil { // and no interface that holds none
		c.Writable = p.writable
	}
	p.machine, err = vm.New(c)
	return err
}

// boot makes a machine with a kernel in it.
func (p *process) boot() error {
	const mebibyte = 1 << 20
	var err error
	if p.layers, err = guestmem.NewLayers(os.NewFile(uintptr(p.memoryFile), "memory"), p.memory*mebibyte); err != nil {
		return err
	}
	if p.base != 0 {
		if p.writable, err = blocklayer.Open(os.NewFile(uintptr(p.base), "base"), nil, os.NewFile(uintptr(p.upper), "upper")); err != nil {
			return err
		}
	}
	if err := p.make(p.layers.Memory, p.cpus); err != nil {
		return err
	}
	kernel, err := sizedFile(os.NewFile(uintptr(p.kernel), "kernel"))
	if err != nil {
		return err
	}
	initramfs, err := sizedFile(os.NewFile(uintptr(p.initramfs), "initramfs"))
	if err != nil {
		return err
	}
	if err := p.machine.Boot(kernel, initramfs, p.words); err != nil {
		return err
	}
	return errors.Join(kernel.Close(), initramfs.Close())
}

// start lets the machine run, and the process end with it.
func (p *process) start() {
	p.machine.Start()
	go func() {
		err := p.machine.Wait()
		if errors.Is(err, vm.ErrOff) || errors.Is(err, vm.ErrReset) {
			_, _ = fmt.Fprintln(p.errors, "aether-vmm:", err) // nobody may be left to hear it
			err = nil
		}
		p.over <- err
	}()
}
