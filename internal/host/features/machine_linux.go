package features

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// machine is a trial virtual machine with one processor.
type machine struct {
	vm, vcpu int
	memory   []byte // from guest address 0
	shared   []byte // the kernel's struct kvm_run
}

// memoryRegion is the kernel's struct kvm_userspace_memory_region.
type memoryRegion struct {
	_, _                uint32 // slot, flags
	_                   uint64 // the guest's address
	size, userspaceAddr uint64
}

// newMachine makes one with so much memory.
func newMachine(device, size int) (m *machine, err error) {
	m = &machine{vm: -1, vcpu: -1}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	if err := checkVersion(device); err != nil {
		return m, err
	}
	if m.vm, err = ioctl(device, kvmCreateVM, 0); err != nil {
		m.vm = -1
		return m, os.NewSyscallError("KVM_CREATE_VM", err)
	}
	if err := m.addMemory(size); err != nil {
		return m, err
	}
	if m.vcpu, err = ioctl(m.vm, kvmCreateVCPU, 0); err != nil {
		m.vcpu = -1
		return m, os.NewSyscallError("KVM_CREATE_VCPU", err)
	}
	return m, m.share(device)
}

func checkVersion(device int) error {
	version, err := ioctl(device, kvmGetAPIVersion, 0)
	if err != nil {
		return os.NewSyscallError("KVM_GET_API_VERSION", err)
	}
	if version != kvmAPIVersion {
		return fmt.Errorf("the interface has version %d, not %d", version, kvmAPIVersion)
	}
	return nil
}

func (m *machine) addMemory(size int) (err error) {
	m.memory, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	region := memoryRegion{size: uint64(size), userspaceAddr: uint64(uintptr(unsafe.Pointer(&m.memory[0])))}
	return control(m.vm, "KVM_SET_USER_MEMORY_REGION", kvmSetUserMemoryRegion, &region)
}

func (m *machine) share(device int) error {
	size, err := ioctl(device, kvmGetVCPUMmapSize, 0)
	if err != nil {
		return os.NewSyscallError("KVM_GET_VCPU_MMAP_SIZE", err)
	}
	m.shared, err = unix.Mmap(m.vcpu, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return os.NewSyscallError("mmap of the processor", err)
}

func (m *machine) close() error {
	var err error
	for _, memory := range [][]byte{m.shared, m.memory} {
		if memory != nil {
			err = errors.Join(err, unix.Munmap(memory))
		}
	}
	for _, fd := range []int{m.vcpu, m.vm} {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}

// The first fields of struct kvm_run: a byte by which the processor is asked to
// stop, and the reason why it did.
func (m *machine) stop() { atomic.OrUint32((*uint32)(unsafe.Pointer(&m.shared[0])), 1<<8) }

func (m *machine) reason() uint32 { return *(*uint32)(unsafe.Pointer(&m.shared[8])) }

var errHangs = errors.New("the guest does not come to its end")

// run lets the guest go until it halts. Signals of Go's own interrupt it too;
// only the clock ends it.
func (m *machine) run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer m.kickAfter(guestTime, unix.Gettid())()
	for deadline := time.Now().Add(guestTime); time.Now().Before(deadline) && ctx.Err() == nil; {
		_, err := ioctl(m.vcpu, kvmRun, 0)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		case err != nil:
			return os.NewSyscallError("KVM_RUN", err)
		case m.reason() == kvmExitHlt:
			return nil
		default:
			return fmt.Errorf("the guest ends with exit reason %d", m.reason())
		}
	}
	return errHangs
}

// kickAfter interrupts the thread from then on until it is told to end; a single
// signal could come just before the thread enters the guest.
func (m *machine) kickAfter(d time.Duration, thread int) (end func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for wait := d; ; wait = 10 * time.Millisecond {
			select {
			case <-done:
				return
			case <-time.After(wait):
				m.stop()
				// SIGURG is what Go's scheduler uses for the same purpose.
				_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
			}
		}
	}()
	return func() { close(done); <-ended }
}

// smokeTest runs the trial guest of this architecture. Should the kernel itself
// never come back, the answer does not wait for it.
func smokeTest(ctx context.Context, device int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*guestTime-100*time.Millisecond)
	defer cancel()
	device, err := unix.FcntlInt(uintptr(device), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	answer := make(chan error, 1)
	go func() { answer <- errors.Join(tryGuest(ctx, device), unix.Close(device)) }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return errHangs
	}
}
