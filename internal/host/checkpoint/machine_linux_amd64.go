package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ThisMachine is the one that this program runs on.
func ThisMachine() (m Machine, err error) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, err
	}
	m.Processor = processorFlags(string(info))
	if m.Clock, err = clockNow(); err != nil {
		return m, err
	}
	m.Kernel, err = kernelDigest()
	return m, err
}

func clockNow() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, os.NewSyscallError("clock_gettime", err)
	}
	return time.Duration(now.Nano()), nil
}

// Behind is how far the clock of this host is behind that of the processes, or 0.
func (im *Image) Behind() (time.Duration, error) {
	now, err := clockNow()
	return max(0, im.Machine.Clock-now), err
}

func kernelDigest() (string, error) {
	areas, err := readMaps(os.Getpid())
	if err != nil {
		return "", err
	}
	self := &Tracee{PID: os.Getpid()}
	for _, a := range areas {
		if a.Name != "[vdso]" {
			continue
		}
		code := make([]byte, a.Size())
		if err := self.read(a.Start, code); err != nil {
			return "", err
		}
		sum := sha256.Sum256(code)
		return hex.EncodeToString(sum[:]), nil
	}
	return "", errors.New("checkpoint: this kernel gives processes no pages of its own")
}
