package guestinit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LoadModule loads one module from a file, unless it is there already.
func LoadModule(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	flags := 0
	if filepath.Ext(name) != ".ko" {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(file.Fd()), "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("machine: load %s: %w", filepath.Base(name), err)
	}
	return nil
}

// SetHostname names the machine.
func SetHostname(name string) error {
	return os.NewSyscallError("sethostname", unix.Sethostname([]byte(name)))
}

// SetClock sets the time of day.
func SetClock(now time.Time) error {
	ts := unix.NsecToTimespec(now.UnixNano())
	return os.NewSyscallError("clock_settime", unix.ClockSettime(unix.CLOCK_REALTIME, &ts))
}

// maxEntropy bounds one portion of entropy.
const maxEntropy = 512

// entropyRequest is struct rand_pool_info.
type entropyRequest struct {
	bits int32
	size int32
	data [maxEntropy]byte
}

// AddEntropy mixes bytes that nobody else knows into the kernel's random numbers
// and makes it draw new ones from there at once, so that two machines restored
// from one snapshot differ from now on.
func AddEntropy(secret []byte) error {
	if len(secret) == 0 || len(secret) > maxEntropy {
		return fmt.Errorf("machine: %d bytes of entropy are not between 1 and %d", len(secret), maxEntropy)
	}
	dev, err := os.OpenFile("/dev/urandom", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer dev.Close()
	request := &entropyRequest{bits: int32(8 * len(secret)), size: int32(len(secret))}
	copy(request.data[:], secret)
	if err := ioctl(dev, unix.RNDADDENTROPY, unsafe.Pointer(request)); err != nil {
		return fmt.Errorf("machine: add entropy: %w", err)
	}
	if err := ioctl(dev, unix.RNDRESEEDCRNG, nil); err != nil {
		return fmt.Errorf("machine: draw new random numbers: %w", err)
	}
	return nil
}

func ioctl(file *os.File, request uintptr, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), request, uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}

// PowerOff ends the machine. Nothing is written back: what it wrote is in memory.
func PowerOff() error {
	// Machines without a power switch end by a reset, which their monitors take
	// for the end.
	err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	return errors.Join(err, unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART))
}

// LoopbackUp brings up the network device by which a machine talks to itself.
func LoopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return os.NewSyscallError("SIOCGIFFLAGS", err)
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP | unix.IFF_RUNNING)
	return os.NewSyscallError("SIOCSIFFLAGS", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr))
}

// Hide keeps processes of the same user from looking into this one, whose memory
// and descriptors lead to its host.
func Hide() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}
