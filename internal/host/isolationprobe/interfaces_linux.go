package isolationprobe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// writable says whether one of the files can be opened for writing. Nothing is written,
// truncated or made.
func writable(names ...string) func(*looker) Sighting {
	return func(*looker) Sighting {
		last := "nothing there"
		for _, name := range names {
			f, err := os.OpenFile(name, os.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
			if err == nil {
				f.Close()
				return open("%s can be written", name)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				last = err.Error()
			}
		}
		return closed("%s", last)
	}
}

// readable is the same for reading.
func readable(names ...string) func(*looker) Sighting {
	return func(*looker) Sighting {
		last := "nothing there"
		for _, name := range names {
			text, err := readSome(name)
			if err == nil && len(text) > 0 {
				return open("%s can be read", name)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				last = err.Error()
			} else if err == nil {
				last = name + " is empty"
			}
		}
		return closed("%s", last)
	}
}

func readSome(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buffer := make([]byte, 64)
	n, err := f.Read(buffer)
	if n > 0 {
		return buffer[:n], nil
	}
	if err != nil && err.Error() == "EOF" {
		err = nil
	}
	return nil, err
}

func interfaceProbes() []probe {
	return []probe{
		{"write-sysctl", writable("/proc/sys/kernel/panic", "/proc/sys/kernel/randomize_va_space", "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/suid_dumpable")},
		{"write-core-pattern", writable("/proc/sys/kernel/core_pattern")},
		{"write-modprobe", writable("/proc/sys/kernel/modprobe")},
		{"write-binfmt", writable("/proc/sys/fs/binfmt_misc/register")},
		{"write-sysrq", writable("/proc/sysrq-trigger")},
		{"write-irq", writable("/proc/irq/default_smp_affinity")},
		{"write-uevent-helper", writable("/sys/kernel/uevent_helper", "/proc/sys/kernel/hotplug")},
		{"write-sysfs", writable("/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/ksm/run", "/sys/kernel/profiling", "/sys/module/printk/parameters/time", "/sys/block/vda/queue/nr_requests")},
		{"write-power", writable("/sys/power/state", "/sys/power/disk", "/sys/power/wake_lock")},
		{"write-debugfs", listable("/sys/kernel/debug")},
		{"write-tracefs", listable("/sys/kernel/tracing", "/sys/kernel/debug/tracing")},
		{"write-securityfs", writable("/sys/kernel/security/lockdown", "/sys/kernel/security/apparmor/.load", "/sys/fs/selinux/enforce")},
		{"write-efivars", listable("/sys/firmware/efi/efivars")},
		{"write-bpffs", listable("/sys/fs/bpf")},
		{"write-cgroup", writable(groupFiles("cgroup.procs", "cgroup.subtree_control", "notify_on_release")...)},
		{"write-release-agent", writable(groupFiles("release_agent")...)},
		{"read-kcore", readable("/proc/kcore")},
	}
}

// groupFiles are the places of a file in the hierarchies of control groups.
func groupFiles(names ...string) (list []string) {
	for _, name := range names {
		list = append(list, filepath.Join("/sys/fs/cgroup", name))
		found, err := filepath.Glob(filepath.Join("/sys/fs/cgroup/*", name))
		if err == nil {
			list = append(list, found[:min(len(found), 64)]...)
		}
	}
	return list
}

// listable says whether one of the directories is of a file system of the kernel's, has
// anything in it and can be listed.
func listable(names ...string) func(*looker) Sighting {
	return func(*looker) Sighting {
		last := "nothing there"
		for _, name := range names {
			d, err := os.Open(name)
			if err != nil {
				if !errors.Is(err, fs.ErrNotExist) {
					last = err.Error()
				}
				continue
			}
			found, err := d.Readdirnames(1)
			d.Close()
			if len(found) > 0 {
				return open("%s shows %s", name, found[0])
			}
			if err != nil {
				last = name + " is empty"
			}
		}
		return closed("%s", last)
	}
}
