package features

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"aether/sandbox"
)

// Requests of /dev/kvm that all architectures share.
const (
	kvmGetAPIVersion       = 0xae00
	kvmCreateVM            = 0xae01
	kvmGetVCPUMmapSize     = 0xae04
	kvmCreateVCPU          = 0xae41
	kvmSetUserMemoryRegion = 0x4020ae46
	kvmRun                 = 0xae80

	kvmAPIVersion = 12
	kvmExitHlt    = 5
)

// guestTime is how long the few instructions of a trial guest may take.
const guestTime = time.Second

// KVM is nil if hardware virtualization runs ordinary guests. Otherwise it is
// Unavailable and says whether the device is absent, closed to this user, or
// there but unable: some hosts offer a /dev/kvm whose guests are emulated, and
// wrongly. A small guest is run to find out; it never takes over two seconds.
func KVM(ctx context.Context) error {
	device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noKVM("/dev/kvm does not exist", "a machine with virtualization, switched on in its firmware; in a virtual machine, nested virtualization", nil)
	case errors.Is(err, fs.ErrPermission):
		return noKVM("this user may not open /dev/kvm", "as root: usermod -aG kvm USER, then log in again", nil)
	case err != nil:
		return noKVM("/dev/kvm cannot be opened", "", err)
	}
	defer device.Close()
	if err := smokeTest(ctx, int(device.Fd())); err != nil {
		return noKVM("/dev/kvm is there but cannot run ordinary guests", "another host: this one's virtualization is incomplete", err)
	}
	return nil
}

func noKVM(reason, remedy string, err error) error {
	return &sandbox.Error{Class: sandbox.Unavailable, Op: "kvm", Reason: reason, Remedy: remedy, Err: err}
}

func surveyKVM(ctx context.Context) Facility {
	f := Facility{Name: "kvm", Detail: kvmDetail, Cost: "no sandboxes with a hardware boundary"}
	f = Judge(f, KVM(ctx))
	if _, err := os.Stat("/dev/kvm"); err == nil && f.State == Missing {
		f.State = Limited
	}
	return f
}

// ioctl without a pointer argument.
func ioctl(fd int, request, arg uintptr) (int, error) {
	for {
		result, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), request, arg)
		switch errno {
		case 0:
			return int(result), nil
		case unix.EINTR:
			if request == kvmRun {
				return 0, errno // whoever interrupted wants to be heard
			}
		default:
			return 0, errno
		}
	}
}

// control is an ioctl on a structure, named for its errors.
func control[T any](fd int, name string, request uintptr, arg *T) error {
	_, err := ioctl(fd, request, uintptr(unsafe.Pointer(arg)))
	runtime.KeepAlive(arg)
	return os.NewSyscallError(name, err)
}
