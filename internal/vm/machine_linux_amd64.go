package vm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"aether/internal/host/guestmem"
	"aether/internal/host/kvm"
	"aether/internal/vm/virtio"
)

// MaxCPUs is the most that a machine has.
const MaxCPUs = 4

// vsockDevice is which of the devices the vsock is.
const vsockDevice = 1

// GuestCID is the number of every machine on its own vsock.
const GuestCID = 3

// Config is what a machine is made of.
type Config struct {
	// KVM is an open /dev/kvm, of which Board, if it is not nil, was made ahead.
	KVM    *os.File
	Board  *Board
	Memory *guestmem.Memory
	// Watched says that it is noted which pages of the memory are written.
	Watched bool
	CPUs    int
	Disk    virtio.Content
	// Writable is a second disk, which is the machine's own; nil is none.
	Writable virtio.WritableContent
	// Console is told what the guest writes to its serial port.
	Console io.Writer
}

// Machine is one guest. It is not taken apart: it ends with its process.
type Machine struct {
	memory  *guestmem.Memory
	watched bool
	system  *kvm.System
	vm      *kvm.VM
	cpus    []*cpu
	serial  serial
	devices []*virtio.Transport
	vsock   *virtio.Vsock
	// events is told when the generation of the machine has changed.
	events *kvm.Event

	// stopping is set while processors are to stand still.
	stopping atomic.Bool
	once     sync.Once
	ended    chan struct{}
	why      error
}

type cpu struct {
	*kvm.CPU
	stopped, resumed chan struct{}
}

// Board is what all machines have in common: the interrupt controllers, a timer and the first
// processor.
type Board struct {
	system *kvm.System
	vm     *kvm.VM
	first  *kvm.CPU
}

// Prepare makes what one machine is made of, whatever that will be, of an open /dev/kvm.
func Prepare(device *os.File) (*Board, error) {
	b := &Board{}
	var err error
	if b.system, err = kvm.Open(device); err != nil {
		return nil, err
	}
	if b.vm, err = b.system.NewVM(); err != nil {
		return nil, err
	}
	if b.first, err = b.vm.NewCPU(0); err != nil {
		return nil, errors.Join(err, b.vm.Close())
	}
	return b, nil
}

// New makes a machine that does nothing yet.
func New(c Config) (*Machine, error) {
	if c.CPUs < 1 || c.CPUs > MaxCPUs {
		return nil, fmt.Errorf("vm: %d processors", c.CPUs)
	}
	var err error
	if c.Board == nil {
		if c.Board, err = Prepare(c.KVM); err != nil {
			return nil, err
		}
	}
	m := &Machine{memory: c.Memory, watched: c.Watched, system: c.Board.system, vm: c.Board.vm, ended: make(chan struct{})}
	if err := m.vm.SetMemory(c.Memory, c.Watched); err != nil {
		return nil, err
	}
	if m.events, err = m.vm.Interrupt(eventLine); err != nil {
		return nil, err
	}
	for id := range c.CPUs {
		made := c.Board.first
		if id > 0 {
			if made, err = m.vm.NewCPU(id); err != nil {
				return nil, err
			}
		}
		m.cpus = append(m.cpus, &cpu{made, make(chan struct{}), make(chan struct{})})
	}
	m.serial.out = c.Console
	m.serial.line = func(up bool) {
		if err := m.vm.SetLine(serialLine, up); err != nil {
			m.end(err)
		}
	}
	return m, m.addDevices(c)
}

// Watch has it be noted from now on which pages of the memory are written.
func (m *Machine) Watch() error {
	if m.watched {
		return nil
	}
	m.memory.Taken(guestmem.NewPages(int64(len(m.memory.Bytes()))))
	m.watched = true
	return m.vm.SetMemory(m.memory, true)
}

// Written are the pages of the memory of a paused machine that were written since the last call;
// none if that is not noted.
func (m *Machine) Written() (guestmem.Pages, error) {
	pages := guestmem.NewPages(int64(len(m.memory.Bytes())))
	if !m.watched {
		return pages, nil
	}
	m.memory.Taken(pages)
	return pages, m.vm.Written(m.memory, pages)
}

func (m *Machine) addDevices(c Config) error {
	makers := []func(func()) *virtio.Transport{
		func(interrupt func()) *virtio.Transport { return virtio.NewDisk(c.Memory, c.Disk, interrupt) },
		func(interrupt func()) *virtio.Transport {
			m.vsock = virtio.NewVsock(c.Memory, GuestCID, interrupt)
			return m.vsock.Transport
		},
		func(interrupt func()) *virtio.Transport { return virtio.NewEntropy(c.Memory, interrupt) },
	}
	if c.Writable != nil {
		makers = append(makers, func(interrupt func()) *virtio.Transport {
			return virtio.NewWritableDisk(c.Memory, c.Writable, interrupt)
		})
	}
	for _, make := range makers {
		if err := m.add(make); err != nil {
			return err
		}
	}
	return nil
}

// add puts a device behind its interrupt and its notifications, each of which has a
// goroutine of its own.
func (m *Machine) add(device func(func()) *virtio.Transport) error {
	n := len(m.devices)
	line, err := m.vm.Interrupt(uint32(firstLine + n))
	if err != nil {
		return err
	}
	t := device(func() {
		if err := line.Raise(); err != nil {
			m.end(err)
		}
	})
	for q := range uint32(t.Queues()) {
		kick, err := m.vm.Notification(uint64(windowsStart+n*windowStride+virtio.NotifyRegister), q)
		if err != nil {
			return err
		}
		go func() {
			for kick.Wait() == nil {
				t.Notify(q)
			}
		}()
	}
	m.devices = append(m.devices, t)
	return nil
}

// Boot puts a kernel in place, to be run by Start.
func (m *Machine) Boot(kernel, initramfs Image, words string) error {
	entry, err := load(m.memory, kernel, initramfs, words, len(m.cpus), len(m.devices))
	if err != nil {
		return err
	}
	return m.cpus[0].StartFlat(entry, startInfo) // the kernel starts the others
}

// Start lets the machine run.
func (m *Machine) Start() {
	for _, c := range m.cpus {
		go m.run(c)
	}
}

// Connect connects a socket to a port of the guest: see virtio.Vsock.
func (m *Machine) Connect(socket virtio.Socket, port uint32, welcome func(uint32) []byte) error {
	return m.vsock.Connect(socket, port, welcome)
}

// Errors by which a guest ends itself.
var (
	ErrOff   = errors.New("vm: the guest switched itself off")
	ErrReset = errors.New("vm: the guest reset itself")
)

// Wait waits until the machine has ended, and says why. Errors: ErrOff, ErrReset.
func (m *Machine) Wait() error {
	<-m.ended
	m.serial.mu.Lock()
	defer m.serial.mu.Unlock()
	m.serial.flush()
	return m.why
}

func (m *Machine) end(why error) {
	m.once.Do(func() {
		m.why = why
		close(m.ended)
	})
}

// run is the life of a processor, on a thread of its own.
func (m *Machine) run(c *cpu) {
	runtime.LockOSThread() // for good
	c.Bind()
	for {
		err := c.Run()
		if errors.Is(err, kvm.ErrInterrupted) {
			if m.stopping.Load() {
				c.stopped <- struct{}{}
				<-c.resumed
			}
			continue
		}
		if err == nil {
			err = m.handle(c.Exit())
		}
		if err != nil {
			m.end(err)
			return
		}
	}
}

// handle does what a processor left the guest for.
func (m *Machine) handle(e kvm.Exit) error {
	switch e.Reason {
	case kvm.IO:
		return m.handlePort(e)
	case kvm.MMIO:
		m.handleMemory(e)
		return nil
	case kvm.Shutdown, kvm.SystemEvent:
		return ErrReset // a triple fault, most likely
	}
	return fmt.Errorf("vm: a processor stopped for reason %d", e.Reason)
}

func (m *Machine) handlePort(e kvm.Exit) error {
	for at := 0; at+e.Size <= len(e.Data) && e.Size > 0; at += e.Size {
		access := e.Data[at : at+e.Size]
		if !e.Write {
			m.readPort(e.Address, access)
			continue
		}
		switch {
		case e.Address >= serialPort && e.Address < serialPort+8:
			m.serial.write(e.Address-serialPort, access[0])
		case e.Address == resetPort && access[0] == resetValue:
			return ErrReset
		case e.Address == sleepControl && access[0] == sleepOff<<2|1<<5:
			return ErrOff
		}
	}
	return nil
}

// readPort answers for ports. Those of nobody are all ones, but for the keyboard's, which
// is never busy, and the clock's, which is never being updated: both would be waited for.
func (m *Machine) readPort(port uint64, to []byte) {
	const clockData = 0x71
	fill := byte(0xff)
	switch {
	case port >= serialPort && port < serialPort+8:
		fill = m.serial.read(port - serialPort)
	case port == clockData || port == resetPort || port == sleepStatus || port == sleepControl:
		fill = 0
	}
	for i := range to {
		to[i] = fill
	}
}

func (m *Machine) handleMemory(e kvm.Exit) {
	at := e.Address - windowsStart
	n, offset := at/windowStride, at%windowStride
	if e.Address < windowsStart || n >= uint64(len(m.devices)) {
		if !e.Write {
			for i := range e.Data {
				e.Data[i] = 0xff
			}
		}
		return
	}
	if e.Write {
		m.devices[n].Write(offset, e.Data)
		return
	}
	m.devices[n].Read(offset, e.Data)
}

// Pause has the machine stand still: its processors, and every device. It is not called
// twice.
func (m *Machine) Pause() error {
	m.stopping.Store(true)
	for _, c := range m.cpus {
		if err := c.Kick(); err != nil {
			return err
		}
	}
	for _, c := range m.cpus {
		select {
		case <-c.stopped:
		case <-m.ended:
			return m.why
		}
	}
	for _, t := range m.devices {
		t.Lock()
	}
	return nil
}

// Resume lets a machine go on that was paused.
func (m *Machine) Resume() {
	for _, t := range m.devices {
		t.Unlock()
	}
	m.stopping.Store(false)
	for _, c := range m.cpus {
		c.Unkick()
	}
	for _, c := range m.cpus {
		c.resumed <- struct{}{}
	}
}
