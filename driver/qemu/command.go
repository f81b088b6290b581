package qemu

import (
	"fmt"
	"strconv"

	"aether/driver/vmm"
)

const descriptorPath = "/proc/self/fd/"

// arguments are QEMU's command line. Nothing in it comes from a caller but
// numbers, and no path in it needs any right.
func arguments(hw vmm.Hardware, has vmm.Descriptors) []string {
	a := accelOf(hw.Emulated)
	args := []string{
		"-name", "aether",
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		// On top of the user without rights: no new programs, no privileges.
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-accel", a.name, "-cpu", a.cpu,
		"-m", strconv.FormatInt(hw.MemoryMiB, 10) + "M", "-smp", strconv.Itoa(hw.CPUs),
		"-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", has[vmm.Socket]), "-mon", "chardev=monitor,mode=control",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-device", "virtio-serial-device,max_ports=2",
		"-chardev", fmt.Sprintf("socket,id=channel,fd=%d", has[vmm.Port]), "-device", "virtserialport,chardev=channel,name=" + vmm.PortName,
		"-object", "rng-random,id=entropy,filename=/dev/urandom", "-device", "virtio-rng-device,rng=entropy",
	}
	args = append(args, diskArguments(has)...)
	args = append(args, memoryArguments(hw, has)...)
	kernel, booted := has[vmm.Kernel]
	if !booted {
		return append(args, "-incoming", "defer") // until it is told of its state
	}
	return append(args,
		"-kernel", descriptorPath+strconv.Itoa(kernel), "-initrd", descriptorPath+strconv.Itoa(has[vmm.Initramfs]),
		"-append", "console=ttyS0 quiet loglevel=3 reboot=t panic=-1 random.trust_cpu=on cryptomgr.notests nowatchdog"+a.kernelArgs)
}

// diskArguments give a template a disk that nobody reads: what is made of it must
// have the same devices.
func diskArguments(has vmm.Descriptors) []string {
	device := []string{"-device", "virtio-blk-device,drive=root"}
	disk, ok := has[vmm.Disk]
	if !ok {
		return append([]string{"-blockdev", "driver=null-co,node-name=root,read-only=on,size=512"}, device...)
	}
	return append([]string{
		"-add-fd", fmt.Sprintf("fd=%d,set=1", disk),
		"-blockdev", "driver=raw,node-name=root,read-only=on,file.driver=file,file.filename=/dev/fdset/1,file.locking=off",
	}, device...)
}

// memoryName is how QEMU names the memory of such a machine where it has no file,
// so that a snapshot does not depend on that.
const memoryName = "microvm.ram"

// memoryArguments map the memory of a template, which writes to it, and of what
// goes on from it, for which changes are its own.
func memoryArguments(hw vmm.Hardware, has vmm.Descriptors) []string {
	memory, ok := has[vmm.Memory]
	if !ok {
		return []string{"-machine", "microvm"}
	}
	share := "off"
	if _, booted := has[vmm.Kernel]; booted {
		share = "on"
	}
	return []string{"-machine", "microvm,memory-backend=" + memoryName, "-object", fmt.Sprintf(
		"memory-backend-file,id=%s,x-use-canonical-path-for-ramblock-id=off,size=%dM,mem-path=%s%d,share=%s",
		memoryName, hw.MemoryMiB, descriptorPath, memory, share)}
}
