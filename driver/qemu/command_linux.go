package qemu

import (
	"fmt"
	"math"
	"strconv"
)

// Names of what a machine has.
const (
	portName = "aether" // the virtio-serial port of the guest service
	rootDisk = "/dev/vda"
)

// guestModules are what the init of a machine needs, beside what they need.
var guestModules = []string{"virtio_mmio", "virtio_blk", "virtio_console", "virtio_rng", "erofs", "overlay"}

// hardwareOf is what a machine has of processors and memory.
type hardwareOf struct {
	MemoryMiB int64 `json:"memory_mib"`
	CPUs      int   `json:"cpus"`
}

// inherited are the descriptors by which QEMU gets what it works with.
type inherited struct {
	monitor, channel, console, disk int
	kernel, initramfs               int // -1 for a machine that is restored
	state                           int // -1 for a machine that is booted
}

const descriptorPath = "/proc/self/fd/"

// arguments are QEMU's command line. Nothing in it comes from a caller but
// numbers, and no path in it needs any right.
func arguments(a accel, hw hardwareOf, fds inherited) []string {
	args := []string{
		"-name", "aether",
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		// On top of the user without rights: no new programs, no privileges.
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-machine", "microvm", "-accel", a.name, "-cpu", a.cpu,
		"-m", strconv.FormatInt(hw.MemoryMiB, 10) + "M", "-smp", strconv.Itoa(hw.CPUs),
		"-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", fds.monitor), "-mon", "chardev=monitor,mode=control",
		"-chardev", fmt.Sprintf("socket,id=console,fd=%d", fds.console), "-serial", "chardev:console",
		"-device", "virtio-serial-device,max_ports=2",
		"-chardev", fmt.Sprintf("socket,id=channel,fd=%d", fds.channel), "-device", "virtserialport,chardev=channel,name=" + portName,
		"-add-fd", fmt.Sprintf("fd=%d,set=1", fds.disk),
		"-blockdev", "driver=raw,node-name=root,read-only=on,file.driver=file,file.filename=/dev/fdset/1,file.locking=off",
		"-device", "virtio-blk-device,drive=root",
		"-object", "rng-random,id=entropy,filename=/dev/urandom", "-device", "virtio-rng-device,rng=entropy",
	}
	if fds.state >= 0 {
		return append(args, "-incoming", "fd:"+strconv.Itoa(fds.state))
	}
	return append(args,
		"-kernel", descriptorPath+strconv.Itoa(fds.kernel), "-initrd", descriptorPath+strconv.Itoa(fds.initramfs),
		"-append", "console=ttyS0 quiet loglevel=3 reboot=t panic=-1 random.trust_cpu=on cryptomgr.notests nowatchdog"+a.words)
}

// processors are enough for a share of them.
func processors(share float64) int {
	if share == 0 {
		return 1
	}
	return int(math.Ceil(share))
}
