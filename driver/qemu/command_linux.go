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

	guestChannel = "virtio:" + portName
)

// guestModules are what the init of a machine needs, beside what they need. The
// driver of the disk is the last: in a template it gets no disk, so that each
// machine that goes on from it finds its own.
var guestModules = []string{"virtio_mmio", "virtio_console", "virtio_rng", "erofs", "overlay", diskModule}

const diskModule = "virtio_blk"

// hardwareOf is what a machine has of processors and memory.
type hardwareOf struct {
	MemoryMiB int64 `json:"memory_mib"`
	CPUs      int   `json:"cpus"`
}

// inherited are the descriptors by which QEMU gets what it works with; -1 is none.
type inherited struct {
	monitor, channel, console int
	disk                      int // of every machine but a template
	kernel, initramfs         int // of one that is booted
	state                     int // of one that goes on from a snapshot
	memory                    int // of a template, and of one that goes on from it
}

// memoryName is how QEMU names the memory of such a machine where it has no file,
// so that a snapshot does not depend on that.
const memoryName = "microvm.ram"

const descriptorPath = "/proc/self/fd/"

// arguments are QEMU's command line. Nothing in it comes from a caller but
// numbers, and no path in it needs any right.
func arguments(a accel, hw hardwareOf, fds inherited) []string {
	args := []string{
		"-name", "aether",
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		// On top of the user without rights: no new programs, no privileges.
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-accel", a.name, "-cpu", a.cpu,
		"-m", strconv.FormatInt(hw.MemoryMiB, 10) + "M", "-smp", strconv.Itoa(hw.CPUs),
		"-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", fds.monitor), "-mon", "chardev=monitor,mode=control",
		"-chardev", fmt.Sprintf("socket,id=console,fd=%d", fds.console), "-serial", "chardev:console",
		"-device", "virtio-serial-device,max_ports=2",
		"-chardev", fmt.Sprintf("socket,id=channel,fd=%d", fds.channel), "-device", "virtserialport,chardev=channel,name=" + portName,
		"-object", "rng-random,id=entropy,filename=/dev/urandom", "-device", "virtio-rng-device,rng=entropy",
	}
	args = append(args, fds.diskArguments()...)
	args = append(args, fds.memoryArguments(hw)...)
	switch {
	case fds.state >= 0:
		return append(args, "-incoming", "fd:"+strconv.Itoa(fds.state))
	case fds.kernel < 0:
		return append(args, "-incoming", "defer") // until it is told that it has its memory
	}
	return append(args,
		"-kernel", descriptorPath+strconv.Itoa(fds.kernel), "-initrd", descriptorPath+strconv.Itoa(fds.initramfs),
		"-append", "console=ttyS0 quiet loglevel=3 reboot=t panic=-1 random.trust_cpu=on cryptomgr.notests nowatchdog"+a.words)
}

// diskArguments give a template a disk that nobody reads: what is made of it must
// have the same devices.
func (fds inherited) diskArguments() []string {
	device := []string{"-device", "virtio-blk-device,drive=root"}
	if fds.disk < 0 {
		return append([]string{"-blockdev", "driver=null-co,node-name=root,read-only=on,size=512"}, device...)
	}
	return append([]string{
		"-add-fd", fmt.Sprintf("fd=%d,set=1", fds.disk),
		"-blockdev", "driver=raw,node-name=root,read-only=on,file.driver=file,file.filename=/dev/fdset/1,file.locking=off",
	}, device...)
}

// memoryArguments map the memory of a template, which writes to it, and of what
// goes on from it, for which changes are its own.
func (fds inherited) memoryArguments(hw hardwareOf) []string {
	if fds.memory < 0 {
		return []string{"-machine", "microvm"}
	}
	share := "off"
	if fds.kernel >= 0 {
		share = "on"
	}
	return []string{"-machine", "microvm,memory-backend=" + memoryName, "-object", fmt.Sprintf(
		"memory-backend-file,id=%s,x-use-canonical-path-for-ramblock-id=off,size=%dM,mem-path=%s%d,share=%s",
		memoryName, hw.MemoryMiB, descriptorPath, fds.memory, share)}
}

// processors are enough for a share of them.
func processors(share float64) int {
	if share == 0 {
		return 1
	}
	return int(math.Ceil(share))
}
