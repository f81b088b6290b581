package isolation

var kernelRows = []Probe{
	{"kernel-boot-id", Kernel, 0, OnHostKernel, "the random number that a kernel has from its start on, beside the host's", "another one", differs},
	{"kernel-version", Kernel, 0, OnHostKernel, "/proc/version beside the host's", "another one", differs},
	{"kernel-counters", Kernel, 0, OnHostKernel, "context switches and forks since the start, beside what the host counted before and after", "not in between", judgeCounters},
	{"kernel-machine", Kernel, 0, OnHostKernel, "whether the kernel that answers has interrupts of a timer, as one on hardware of its own has", "it has, and is not the host's", judgeMachine},
	{"kernel-log", Kernel, 2, OnHostKernel, "syslog(2) and /proc/kmsg: the host's log tells of its hardware, addresses and other sandboxes", "refused", isClosed},
	{"kernel-addresses", Kernel, 2, OnHostKernel, "addresses in /proc/kallsyms, which attacks on the kernel need", "none is told", isClosed},
}

var callRows = []Probe{
	{"calls-mount", SystemCalls, 3, OnHostKernel, "mount, umount2, pivot_root and the newer calls of mounts: they change the sandbox's walls", "refused or absent", isClosed},
	{"calls-namespaces", SystemCalls, 3, OnHostKernel, "unshare, setns, clone3: they enter or make namespaces, which open most of the kernel's privileged code", "refused or absent", isClosed},
	{"calls-keyring", SystemCalls, 2, OnHostKernel, "keyctl, add_key, request_key: keyrings are kept apart badly", "refused or absent", isClosed},
	{"calls-bpf", SystemCalls, 3, OnHostKernel, "bpf: loads code into the kernel", "refused or absent", isClosed},
	{"calls-io-uring", SystemCalls, 3, OnHostKernel, "io_uring: does what other calls do where no filter sees it", "refused or absent", isClosed},
	{"calls-userfaultfd", SystemCalls, 2, OnHostKernel, "userfaultfd: pauses the kernel in the middle of a copy", "refused or absent", isClosed},
	{"calls-perf", SystemCalls, 2, OnHostKernel, "perf_event_open: a large and often broken interface", "refused or absent", isClosed},
	{"calls-modules", SystemCalls, 3, OnHostKernel, "init_module, finit_module, delete_module: code of the kernel itself", "refused or absent", isClosed},
	{"calls-machine", SystemCalls, 2, OnHostKernel, "reboot, kexec_load, swapon, acct, sethostname, quotactl, syslog: act on the whole machine", "refused or absent", isClosed},
	{"calls-clock", SystemCalls, 1, OnHostKernel, "settimeofday, clock_settime, clock_adjtime: set the machine's clocks", "refused or absent", isClosed},
	{"calls-handles", SystemCalls, 2, OnHostKernel, "open_by_handle_at: opens files past the mount tree", "refused or absent", isClosed},
	{"calls-memory-policy", SystemCalls, 1, OnHostKernel, "mbind, migrate_pages, move_pages, set_mempolicy: steer the host's memory", "refused or absent", isClosed},
	{"calls-fanotify", SystemCalls, 1, OnHostKernel, "fanotify: watches files of the whole host", "refused or absent", isClosed},
	{"calls-asynchronous-io", SystemCalls, 1, OnHostKernel, "io_setup: its requests are counted for the whole host, and one sandbox could take them all", "refused or absent", isClosed},
}

var capabilityRows = []Probe{
	// These open code of the kernel in a user namespace of the sandbox's own too.
	{"cap-sys-admin", Capabilities, 8, OnHostKernel, "CAP_SYS_ADMIN: mounts, namespaces and much else; nearly root of the host", "not held", isClosed},
	{"cap-net-admin", Capabilities, 4, OnHostKernel, "CAP_NET_ADMIN: devices, routes and packet filters, whose code is a frequent way out", "not held", isClosed},
	{"cap-sys-module", Capabilities, 6, OfHostUsers, "CAP_SYS_MODULE: loads code into the kernel", "not held", isClosed},
	{"cap-sys-rawio", Capabilities, 5, OfHostUsers, "CAP_SYS_RAWIO: ports and memory of the machine", "not held", isClosed},
	{"cap-sys-ptrace", Capabilities, 3, OfHostUsers, "CAP_SYS_PTRACE: memory of other processes", "not held", isClosed},
	{"cap-sys-boot", Capabilities, 3, OfHostUsers, "CAP_SYS_BOOT: reboots, or boots another kernel", "not held", isClosed},
	{"cap-sys-time", Capabilities, 2, OfHostUsers, "CAP_SYS_TIME: sets the machine's clock", "not held", isClosed},
	{"cap-sys-resource", Capabilities, 2, OfHostUsers, "CAP_SYS_RESOURCE: goes beyond limits", "not held", isClosed},
	{"cap-net-raw", Capabilities, 2, OfHostUsers, "CAP_NET_RAW: forges packets", "not held", isClosed},
	{"cap-dac-read-search", Capabilities, 4, OfHostUsers, "CAP_DAC_READ_SEARCH: opens any file of the host by its handle", "not held", isClosed},
	{"cap-dac-override", Capabilities, 1, OfHostUsers, "CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_CHOWN: any file that is shown", "not held", isClosed},
	{"cap-mknod", Capabilities, 2, OfHostUsers, "CAP_MKNOD: makes nodes of any device", "not held", isClosed},
	{"cap-setuid", Capabilities, 1, OfHostUsers, "CAP_SETUID, CAP_SETGID, CAP_SETPCAP, CAP_SETFCAP: becomes any user", "not held", isClosed},
	{"cap-bpf", Capabilities, 4, OfHostUsers, "CAP_BPF, CAP_PERFMON: reads the kernel's memory", "not held", isClosed},
	{"cap-mac", Capabilities, 3, OfHostUsers, "CAP_MAC_ADMIN, CAP_MAC_OVERRIDE: changes the host's security modules", "not held", isClosed},
	{"cap-log", Capabilities, 1, OfHostUsers, "CAP_SYSLOG, CAP_AUDIT_CONTROL, CAP_AUDIT_READ: the host's logs", "not held", isClosed},
}

var namespaceRows = []Probe{
	{"ns-user", Namespaces, 5, OnHostKernel, "the user namespace: without one of its own, root inside is root", "not the host's", differs},
	{"ns-pid", Namespaces, 4, OnHostKernel, "the pid namespace: the host's processes could be seen and signalled", "not the host's", differs},
	{"ns-mnt", Namespaces, 5, OnHostKernel, "the mount namespace: the host's tree of files", "not the host's", differs},
	{"ns-net", Namespaces, 4, OnHostKernel, "the network namespace: devices, ports and abstract sockets of the host", "not the host's", differs},
	{"ns-ipc", Namespaces, 2, OnHostKernel, "the IPC namespace: shared memory and queues of the host", "not the host's", differs},
	{"ns-uts", Namespaces, 1, OnHostKernel, "the UTS namespace: the host's name", "not the host's", differs},
	{"ns-cgroup", Namespaces, 1, OnHostKernel, "the cgroup namespace: where on the host the sandbox is", "not the host's", differs},
}

var privilegeRows = []Probe{
	{"no-new-privs", Privileges, 2, OnHostKernel, "whether a set-user-id program gives more rights", "no_new_privs is set", isClosed},
	{"seccomp", Privileges, 4, OnHostKernel, "whether a filter of system calls is in force", "mode 2", isClosed},
	{"root-outside", Privileges, 5, OnHostKernel, "who the root of the sandbox is on the host, where its process is looked for", "not root", judgeRoot},
	{"user-namespaces", Privileges, 3, OnHostKernel, "starting a process in a new user namespace, where it has every capability", "refused", isClosed},
	{"mounting", Privileges, 4, OnHostKernel, "mounting a file system of a type that does not exist: only who may mount is told so", "refused", isClosed},
	{"setuid-files", Privileges, 1, OfHostUsers, "whether set-user-id bits in /tmp are obeyed", "the mount is nosuid", isClosed},
}

var interfaceRows = []Probe{
	{"write-sysctl", Interfaces, 4, OnHostKernel, "settings in /proc/sys, opened for writing", "refused", isClosed},
	{"write-core-pattern", Interfaces, 5, OnHostKernel, "/proc/sys/kernel/core_pattern: a program that the host runs as root", "refused", isClosed},
	{"write-modprobe", Interfaces, 5, OnHostKernel, "/proc/sys/kernel/modprobe: the same", "refused", isClosed},
	{"write-binfmt", Interfaces, 4, OnHostKernel, "binfmt_misc: interpreters of the host's programs", "refused", isClosed},
	{"write-sysrq", Interfaces, 4, OnHostKernel, "/proc/sysrq-trigger: ends the machine", "refused", isClosed},
	{"write-irq", Interfaces, 1, OnHostKernel, "/proc/irq: moves the host's interrupts", "refused", isClosed},
	{"write-uevent-helper", Interfaces, 5, OnHostKernel, "/sys/kernel/uevent_helper: a program that the host runs as root", "refused", isClosed},
	{"write-sysfs", Interfaces, 3, OnHostKernel, "settings in /sys, opened for writing", "refused", isClosed},
	{"write-power", Interfaces, 3, OnHostKernel, "/sys/power: puts the machine to sleep", "refused", isClosed},
	{"write-debugfs", Interfaces, 3, OnHostKernel, "debugfs, listed", "nothing there", isClosed},
	{"write-tracefs", Interfaces, 2, OnHostKernel, "tracefs, listed", "nothing there", isClosed},
	{"write-securityfs", Interfaces, 3, OnHostKernel, "policies of the security modules, opened for writing", "refused", isClosed},
	{"write-efivars", Interfaces, 2, OnHostKernel, "variables of the firmware, listed", "nothing there", isClosed},
	{"write-bpffs", Interfaces, 2, OnHostKernel, "programs that others have loaded into the kernel, listed", "nothing there", isClosed},
	{"write-cgroup", Interfaces, 3, OnHostKernel, "control groups, opened for writing: the sandbox's own limits", "refused", isClosed},
	{"write-release-agent", Interfaces, 5, OnHostKernel, "release_agent: a program that the host runs as root", "refused", isClosed},
	{"read-kcore", Interfaces, 5, OnHostKernel, "/proc/kcore: the host's memory", "refused", isClosed},
}

var deviceRows = []Probe{
	{"dev-nodes", Devices, 3, OnHostKernel, "nodes in /dev beyond null, zero, full, random, urandom, tty, console and ptmx", "none", isClosed},
	{"dev-disks", Devices, 5, OnHostKernel, "nodes of block devices: the host's disks", "none", isClosed},
	{"dev-memory", Devices, 5, OnHostKernel, "/dev/mem, /dev/kmem, /dev/port", "none", isClosed},
	{"dev-kvm", Devices, 2, OnHostKernel, "/dev/kvm, vhost and VFIO: large interfaces of the kernel", "none", isClosed},
	{"dev-kmsg", Devices, 1, OnHostKernel, "/dev/kmsg: the host's log", "none", isClosed},
	{"dev-fuse", Devices, 1, OnHostKernel, "/dev/fuse, /dev/net/tun, loop and mapper control", "none", isClosed},
	{"dev-mknod", Devices, 3, OnHostKernel, "making and opening another node of /dev/null", "refused", isClosed},
	{"raw-sockets", Devices, 2, OfHostUsers, "a raw socket of IP", "refused", isClosed},
	{"packet-sockets", Devices, 2, OnHostKernel, "a packet socket, whose code was a way out before", "refused", isClosed},
}

var visibilityRows = []Probe{
	{"see-process", Visibility, 6, Always, "a process of the host, by its command line", "not seen", isClosed},
	{"see-process-root", Visibility, 6, Always, "the host's files by way of /proc/PID/root", "not seen", isClosed},
	{"see-file", Visibility, 8, Always, "reading a file of the host that everybody there may read", "not there", isClosed},
	{"change-file", Visibility, 10, Always, "opening that file for writing", "not there", isClosed},
	{"see-hostname", Visibility, 1, Always, "the name of the machine", "not the host's", differs},
	{"see-mounts", Visibility, 3, OnHostKernel, "a mount of the host's root, or of the socket of a daemon", "none", isClosed},
	{"see-environment", Visibility, 4, Always, "variables of the program that made the sandbox", "none", judgeEnvironment},
	{"see-shadow", Visibility, 4, Always, "the host's passwords in /etc/shadow", "not the host's", differs},
	{"see-keys", Visibility, 1, OfHostUsers, "/proc/keys: the kernel's keys of this user", "nothing there", isClosed},
	{"see-interrupts", Visibility, 1, OnHostKernel, "/proc/interrupts, /proc/timer_list, /proc/sched_debug: what the host and others do", "nothing there", isClosed},
	{"see-disks", Visibility, 1, OnHostKernel, "/proc/partitions: the host's disks by name", "nothing there", isClosed},
}

var networkRows = []Probe{
	{"net-abstract", Network, 5, Always, "an abstract socket that a program of the host listens at", "not reached", isClosed},
	{"net-unix", Network, 5, Always, "a socket of the host by its path", "not reached", isClosed},
	{"net-loopback", Network, 5, Always, "a port of the host's 127.0.0.1", "not reached", isClosed},
	{"net-loopback6", Network, 2, Always, "a port of the host's ::1", "not reached", isClosed},
	{"net-address", Network, 4, Always, "a port at another address of the host", "not reached", isClosed},
	{"net-metadata", Network, 4, Always, "169.254.169.254, where clouds tell machines their secrets", "not reached", isClosed},
	{"net-devices", Network, 2, Always, "devices of the network in a sandbox that was to have none", "the loopback alone", isClosed},
	{"net-routes", Network, 1, Always, "routes in such a sandbox", "none", isClosed},
}

var resourceRows = []Probe{
	{"exhaust-processes", Resources, 4, Always, "starting more processes than the limit that was asked for", "refused at the limit", isClosed},
	{"exhaust-memory", Resources, 4, Always, "taking twice the memory that was asked for", "stopped at the limit", isClosed},
	{"exhaust-disk", Resources, 3, Always, "writing twice what the disk was to have", "refused at the limit", isClosed},
	{"limit-files", Resources, 1, OnHostKernel, "the hard limit on open files", "at most 1048576", isClosed},
	{"limit-core", Resources, 1, OnHostKernel, "core dumps, which the host would write", "none", isClosed},
	{"limit-locked-memory", Resources, 1, OnHostKernel, "memory that cannot be swapped out", "at most 1 GiB", isClosed},
}
