package seccomp

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// evaluate runs a program as the kernel would: an independent reading of the
// few instructions that filters use.
func evaluate(t *testing.T, program []unix.SockFilter, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[0:], nr)
	binary.LittleEndian.PutUint32(data[4:], arch)
	for i, arg := range args {
		binary.LittleEndian.PutUint64(data[16+8*i:], arg)
	}
	var acc uint32
	for pc := 0; pc < len(program); pc++ {
		in := program[pc]
		var truth bool
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.LittleEndian.Uint32(data[in.K:])
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			truth = acc >= in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			truth = acc == in.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			truth = acc&in.K != 0
		default:
			t.Fatalf("instruction %d has the code %#x", pc, in.Code)
		}
		if truth {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
	t.Fatal("the program runs off its end")
	return 0
}

func filter(t *testing.T) []unix.SockFilter {
	t.Helper()
	program, err := Filter()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func TestEveryNumberGetsItsVerdict(t *testing.T) {
	program, table := filter(t), verdicts()
	t.Logf("%d instructions for %d spans", len(program), len(spans(table)))
	for nr := range uint32(2048) {
		want, known := table[nr]
		if !known {
			want = int(enosys)
		}
		if want < 0 {
			continue // a check: see below
		}
		if got := evaluate(t, program, auditArch, nr); got != uint32(want) {
			t.Errorf("system call %d gets %#x, not %#x", nr, got, want)
		}
	}
}

func TestChecks(t *testing.T) {
	program := filter(t)
	for _, c := range []struct {
		name string
		nr   uint32
		args []uint64
		want uint32
	}{
		{"fork by clone", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, allow},
		{"a thread", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, allow},
		{"a user namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, eperm},
		{"a net namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWNET}, eperm},
		{"clone3", unix.SYS_CLONE3, nil, enosys},
		{"unix socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allow},
		{"family with rubbish above", unix.SYS_SOCKET, []uint64{1<<32 | unix.AF_PACKET}, noFamily},
		{"route netlink", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow},
		{"netfilter netlink", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, noProtocol},
		{"TCP", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP}, allow},
		{"UDP of version 6", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, allow},
		{"ping", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, allow},
		{"ping of version 6", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6}, allow},
		{"multipath TCP", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, noProtocol},
		{"SCTP of version 6 with rubbish above", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM, 1<<32 | unix.IPPROTO_SCTP}, noProtocol},
		{"unix socket by the number of its family", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, unix.AF_UNIX}, allow},
		{"unix socket with a protocol", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, unix.IPPROTO_TCP}, noProtocol},
		{"pair of unix sockets", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allow},
		{"pair of crypto sockets", unix.SYS_SOCKETPAIR, []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, noPair},
		{"vsock", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, noFamily},
		{"crypto", unix.SYS_SOCKET, []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, noFamily},
		{"window size", unix.SYS_IOCTL, []uint64{0, unix.TIOCGWINSZ}, allow},
		{"type into the terminal", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, eperm},
		{"the same with rubbish above", unix.SYS_IOCTL, []uint64{0, 1<<32 | unix.TIOCSTI}, eperm},
		{"rules of its own, which a fork would lose", unix.SYS_LANDLOCK_RESTRICT_SELF, nil, enosys},
		{"making such rules", unix.SYS_LANDLOCK_CREATE_RULESET, nil, enosys},
		{"Query the personality", unix.SYS_PERSONALITY, []uint64{Query}, allow},
		{"a name", unix.SYS_PRCTL, []uint64{unix.PR_SET_NAME}, allow},
		{"user dispatch, which a fork would lose", unix.SYS_PRCTL, []uint64{unix.PR_SET_SYSCALL_USER_DISPATCH, 1}, einval},
		{"no writable code, likewise", unix.SYS_PRCTL, []uint64{unix.PR_SET_MDWE, 1}, einval},
		{"give memory back", unix.SYS_MADVISE, []uint64{0, 0, unix.MADV_DONTNEED}, allow},
		{"guard pages, which a fork could not see", unix.SYS_MADVISE, []uint64{0, 0, 102}, einval},
		{"guard pages by another call", unix.SYS_PROCESS_MADVISE, []uint64{0, 0, 0, 102}, einval},
		{"a named pipe", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFIFO | 0o600}, allow},
		{"a plain file", unix.SYS_MKNODAT, []uint64{0, 0, 0o600}, allow},
		{"a socket", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFSOCK | 0o600}, allow},
		{"a whiteout", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFCHR | 0o600, 0}, eperm},
		{"a disk", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFBLK | 0o600, 8 << 8}, eperm},
		{"a whiteout in place of what is renamed", unix.SYS_RENAMEAT2, []uint64{0, 0, 0, 0, unix.RENAME_WHITEOUT}, eperm},
		{"another limit of core dumps", unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_CORE, 1}, pretend},
		{"another limit of files", unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_NOFILE, 1}, allow},
		{"another limit of core dumps, the newer way", unix.SYS_PRLIMIT64, []uint64{7, unix.RLIMIT_CORE, 0x1000}, pretend},
		{"and at an address above 4 GiB", unix.SYS_PRLIMIT64, []uint64{7, unix.RLIMIT_CORE, 1 << 32}, pretend},
		{"the limit of core dumps", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0, 0x1000}, allow},
		{"another limit of files, the newer way", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_NOFILE, 0x1000}, allow},
		{"an exchange", unix.SYS_RENAMEAT2, []uint64{0, 0, 0, 0, unix.RENAME_EXCHANGE}, allow},
		{"a descriptor's flags", unix.SYS_FCNTL, []uint64{0, unix.F_SETFD}, allow},
		{"a lock", unix.SYS_FCNTL, []uint64{0, unix.F_OFD_SETLKW}, allow},
		{"a copy of a descriptor", unix.SYS_FCNTL, []uint64{0, unix.F_DUPFD_CLOEXEC}, allow},
		{"seals", unix.SYS_FCNTL, []uint64{0, unix.F_ADD_SEALS}, allow},
		{"whether there is a lease", unix.SYS_FCNTL, []uint64{0, unix.F_GETLEASE}, allow},
		{"a lease", unix.SYS_FCNTL, []uint64{0, unix.F_SETLEASE}, einval},
		{"the same with rubbish above", unix.SYS_FCNTL, []uint64{0, 1<<32 | unix.F_SETLEASE}, einval},
		{"a lease of a directory", unix.SYS_FCNTL, []uint64{0, FcntlBase + 16}, einval},
		{"a watch by signal", unix.SYS_FCNTL, []uint64{0, unix.F_NOTIFY}, einval},
		{"a hint", unix.SYS_FCNTL, []uint64{0, unix.F_SET_RW_HINT}, einval},
		{"a hint of an open file", unix.SYS_FCNTL, []uint64{0, unix.F_SET_FILE_RW_HINT}, einval},
		{"another personality", unix.SYS_PERSONALITY, []uint64{0x0400000}, eperm},
	} {
		if got := evaluate(t, program, auditArch, c.nr, c.args...); got != c.want {
			t.Errorf("%s gets %#x, not %#x", c.name, got, c.want)
		}
	}
}

func TestOtherArchitecturesAndABIs(t *testing.T) {
	program := filter(t)
	if got := evaluate(t, program, unix.AUDIT_ARCH_I386, 1); got != kill {
		t.Errorf("a 32-bit system call gets %#x", got)
	}
	for _, nr := range []uint32{x32Bit, x32Bit | unix.SYS_READ, x32Bit | unix.SYS_MOUNT, 1 << 31, ^uint32(0)} {
		if got := evaluate(t, program, auditArch, nr); got != enosys {
			t.Errorf("number %#x gets %#x", nr, got)
		}
	}
}

func TestNothingIsBothAllowedAndRefused(t *testing.T) {
	seen := map[uint32]string{}
	note := func(nr uint32, list string) {
		if before, twice := seen[nr]; twice {
			t.Errorf("system call %d is %s and %s", nr, before, list)
		}
		seen[nr] = list
	}
	for _, nr := range append(append([]uint32{}, allowed...), archAllowed...) {
		note(nr, "allowed")
	}
	for _, r := range Refusals() {
		note(r.Nr, "refused")
		if r.Why == "" || r.Name == "" {
			t.Errorf("system call %d is refused without a reason or name", r.Nr)
		}
	}
	for _, c := range Checks() {
		note(c.Nr, "checked")
	}
}
