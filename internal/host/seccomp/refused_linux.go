package seccomp

import "golang.org/x/sys/unix"

// Refusal is a system call that a sandbox may not make, and why. These answer
// EPERM, so that programs see a permission problem. Every call that is neither
// allowed nor named here answers ENOSYS, so that programs fall back as they
// would on an older kernel.
type Refusal struct {
	Nr   uint32
	Name string
	Why  string
}

const (
	mounts    = "changes or inspects the mount tree, which is the sandbox's wall"
	names     = "enters or makes namespaces; new user namespaces open most of the kernel's privileged surface"
	keyrings  = "kernel keyrings are not namespaced well and have a history of escapes"
	code      = "loads or inspects code in the kernel"
	uring     = "runs system calls where no filter sees them"
	machine   = "acts on the whole machine"
	clocks    = "sets the machine's clocks"
	handles   = "opens files by handle, past the mount tree"
	placement = "moves memory between nodes; it leaks and steers the host's layout"
	faults    = "lets user space pause the kernel in the middle of a copy, the tool of many exploits"
	legacy    = "obsolete and rarely exercised kernel code"
	ports     = "grants direct access to hardware"
	audit     = "watches files of the whole host"
)

// Refusals lists what is refused by name, on every architecture.
var refusals = []Refusal{
	{unix.SYS_ACCT, "acct", machine},
	{unix.SYS_ADD_KEY, "add_key", keyrings},
	{unix.SYS_ADJTIMEX, "adjtimex", clocks},
	{unix.SYS_BPF, "bpf", code},
	{unix.SYS_CHROOT, "chroot", mounts},
	{unix.SYS_CLOCK_ADJTIME, "clock_adjtime", clocks},
	{unix.SYS_CLOCK_SETTIME, "clock_settime", clocks},
	{unix.SYS_DELETE_MODULE, "delete_module", code},
	{unix.SYS_FANOTIFY_INIT, "fanotify_init", audit},
	{unix.SYS_FANOTIFY_MARK, "fanotify_mark", audit},
	{unix.SYS_FINIT_MODULE, "finit_module", code},
	{unix.SYS_FSCONFIG, "fsconfig", mounts},
	{unix.SYS_FSMOUNT, "fsmount", mounts},
	{unix.SYS_FSOPEN, "fsopen", mounts},
	{unix.SYS_FSPICK, "fspick", mounts},
	{unix.SYS_GET_MEMPOLICY, "get_mempolicy", placement},
	{unix.SYS_INIT_MODULE, "init_module", code},
	{unix.SYS_IO_URING_ENTER, "io_uring_enter", uring},
	{unix.SYS_IO_URING_REGISTER, "io_uring_register", uring},
	{unix.SYS_IO_URING_SETUP, "io_uring_setup", uring},
	{unix.SYS_KEXEC_FILE_LOAD, "kexec_file_load", machine},
	{unix.SYS_KEXEC_LOAD, "kexec_load", machine},
	{unix.SYS_KEYCTL, "keyctl", keyrings},
	{unix.SYS_LOOKUP_DCOOKIE, "lookup_dcookie", legacy},
	{unix.SYS_MBIND, "mbind", placement},
	{unix.SYS_MIGRATE_PAGES, "migrate_pages", placement},
	{unix.SYS_MOUNT, "mount", mounts},
	{unix.SYS_MOUNT_SETATTR, "mount_setattr", mounts},
	{unix.SYS_MOVE_MOUNT, "move_mount", mounts},
	{unix.SYS_MOVE_PAGES, "move_pages", placement},
	{unix.SYS_NAME_TO_HANDLE_AT, "name_to_handle_at", handles},
	{unix.SYS_NFSSERVCTL, "nfsservctl", legacy},
	{unix.SYS_OPEN_BY_HANDLE_AT, "open_by_handle_at", handles},
	{unix.SYS_OPEN_TREE, "open_tree", mounts},
	{unix.SYS_PERF_EVENT_OPEN, "perf_event_open", code},
	{unix.SYS_PIVOT_ROOT, "pivot_root", mounts},
	{unix.SYS_QUOTACTL, "quotactl", machine},
	{unix.SYS_QUOTACTL_FD, "quotactl_fd", machine},
	{unix.SYS_REBOOT, "reboot", machine},
	{unix.SYS_REQUEST_KEY, "request_key", keyrings},
	{unix.SYS_SETDOMAINNAME, "setdomainname", machine},
	{unix.SYS_SETHOSTNAME, "sethostname", machine},
	{unix.SYS_SETNS, "setns", names},
	{unix.SYS_SETTIMEOFDAY, "settimeofday", clocks},
	{unix.SYS_SET_MEMPOLICY, "set_mempolicy", placement},
	{unix.SYS_SET_MEMPOLICY_HOME_NODE, "set_mempolicy_home_node", placement},
	{unix.SYS_SWAPOFF, "swapoff", machine},
	{unix.SYS_SWAPON, "swapon", machine},
	{unix.SYS_SYSLOG, "syslog", code},
	{unix.SYS_UMOUNT2, "umount2", mounts},
	{unix.SYS_UNSHARE, "unshare", names},
	{unix.SYS_USERFAULTFD, "userfaultfd", faults},
	{unix.SYS_VHANGUP, "vhangup", machine},
}

// Refusals lists what is refused by name on this architecture, with reasons.
func Refusals() []Refusal { return append(append([]Refusal(nil), refusals...), archRefusals...) }
