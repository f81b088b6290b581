package gvisor

import (
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/driver/command"
	"aether/driver/guestagent"
	"aether/sandbox"
)

const (
	mebibyte    = 1 << 20
	defaultDisk = 1 << 30
	maxShared   = 64 * mebibyte

	// minMemory is what runsc's three processes and the guest service need.
	minMemory = 96 * mebibyte
	// kernelMemory is what is set aside of a limit for gVisor itself, and for what
	// commands may take before the guard has seen it.
	kernelMemory = 48 * mebibyte
	// threads are what gVisor has on the host for each process inside, and
	// ownThreads what it has anyway.
	threads    = 4
	ownThreads = 256
)

func diskBytes(l sandbox.Limits) int64 {
	if l.DiskBytes > 0 {
		return l.DiskBytes
	}
	return defaultDisk
}

// sharedBytes is the part of the disk for /dev/shm, which is a file system of its
// own; rootBytes is all the rest.
func sharedBytes(l sandbox.Limits) int64 { return min(diskBytes(l)/4, maxShared) }
func rootBytes(l sandbox.Limits) int64   { return diskBytes(l) - sharedBytes(l) }

// group is what the host holds: the memory of all, and threads of gVisor, of
// which a sandbox must not run out before its own limit on processes is reached,
// since it would end.
func group(l sandbox.Limits) sandbox.Limits {
	l.Processes = processes(l)*threads + ownThreads
	return l
}

func processes(l sandbox.Limits) int64 {
	if l.Processes > 0 {
		return l.Processes
	}
	return guestagent.DefaultProcesses
}

// guestArgs has the guest service watch over memory: gVisor's kernel counts it,
// and when the host finds that it is too much, it kills that kernel.
func guestArgs(l sandbox.Limits) []string {
	if l.MemoryBytes == 0 {
		return command.GuestArgs
	}
	return append(command.GuestArgs[:len(command.GuestArgs):len(command.GuestArgs)],
		"-guarded-memory", strconv.FormatInt(l.MemoryBytes-kernelMemory-l.MemoryBytes/8, 10))
}

// rlimits bound the processes of each user inside, which root there cannot raise.
func rlimits(l sandbox.Limits) []specs.POSIXRlimit {
	bound := uint64(processes(l) + guestagent.Overhead)
	return []specs.POSIXRlimit{{Type: "RLIMIT_NPROC", Soft: bound, Hard: bound}}
}
