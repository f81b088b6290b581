package isolationprobe

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxFile is how much of any file is read.
const maxFile = 1 << 20

// read gives the beginning of a file.
func read(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// contents is a file's whole text as a value for the outside to compare.
func contents(name string) func(*looker) Sighting {
	return func(*looker) Sighting {
		text, err := read(name)
		if err != nil {
			return unknown("%v", err)
		}
		return value(strings.TrimSpace(string(text)))
	}
}

var kernelProbes = []probe{
	{"kernel-boot-id", contents("/proc/sys/kernel/random/boot_id")},
	{"kernel-version", contents("/proc/version")},
	{"kernel-counters", counters},
	{"kernel-machine", machine},
	{"kernel-log", kernelLog},
	{"kernel-addresses", addresses},
}

// counters are numbers that a kernel counts up as long as it runs: the outside knows between
// which two values its own were meanwhile.
func counters(*looker) Sighting {
	text, err := Counters()
	if err != nil {
		return unknown("%v", err)
	}
	return value(text)
}

// Counters are the numbers of context switches and of forks since the kernel began.
func Counters() (string, error) {
	text, err := read("/proc/stat")
	if err != nil {
		return "", err
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "ctxt" || name == "processes" {
			found = append(found, rest)
		}
	}
	if len(found) != 2 {
		return "", errors.New("/proc/stat counts neither context switches nor forks")
	}
	return strings.Join(found, " "), nil
}

// machine tells a kernel that runs on hardware, real or not, from one that is a program: it
// has interrupts of a timer.
func machine(*looker) Sighting {
	text, err := read("/proc/interrupts")
	if err != nil {
		return closed("%v", err)
	}
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		line := scan.Text()
		if strings.Contains(line, "timer") && strings.ContainsAny(line, "123456789") {
			return open("%s", strings.Join(strings.Fields(line), " "))
		}
	}
	return closed("no interrupts of a timer")
}

const (
	readAllOfLog = 3  // SYSLOG_ACTION_READ_ALL
	sizeOfLog    = 10 // SYSLOG_ACTION_SIZE_BUFFER
)

// kernelLog reads the log, by call and by file.
func kernelLog(*looker) Sighting {
	if n, err := unix.Klogctl(readAllOfLog, make([]byte, 4<<10)); err == nil && n > 0 {
		return open("syslog: %d bytes", n)
	}
	// systemd-nspawn has a pipe in its place.
	if info, err := os.Stat("/proc/kmsg"); err == nil && info.Mode().IsRegular() {
		if f, err := os.OpenFile("/proc/kmsg", os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			f.Close()
			return open("/proc/kmsg can be read")
		}
	}
	if _, err := unix.Klogctl(sizeOfLog, nil); err == nil {
		return closed("its size is told, and nothing of it")
	}
	return closed("refused")
}

// addresses are those of the kernel's code, which attacks on it need.
func addresses(*looker) Sighting {
	text, err := read("/proc/kallsyms")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return closed("%v", err)
	}
	if err != nil {
		return unknown("%v", err)
	}
	for line := range strings.Lines(string(text)) {
		address, name, _ := strings.Cut(line, " ")
		if strings.Trim(address, "0") != "" && strings.Contains(name, " ") {
			return open("%s", strings.TrimSpace(line))
		}
	}
	return closed("no address is told")
}
