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
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return m, os.NewSyscallError("clock_gettime", err)
	}
	m.Clock = time.Duration(now.Nano())
	m.Kernel, err = kernelDigest()
	return m, err
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
