package spawn

import (
	"fmt"
	"io"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kind is how an argument is printed.
type kind byte

const (
	number kind = iota
	text        // address of a zero-terminated string
	list        // address of a zero-terminated list of them
	hex         // flags
	memory      // address of a structure
	descriptor
)

// calls are the system calls that scripts use. A call that is missing here is
// printed by its number, and TestRunExplainsEverySystemCall fails.
var calls = map[uintptr]struct {
	name string
	args []kind
}{
	unix.SYS_BIND:                    {"bind", []kind{descriptor, memory, number}},
	unix.SYS_CAPSET:                  {"capset", []kind{memory, memory}},
	unix.SYS_CHDIR:                   {"chdir", []kind{text}},
	unix.SYS_CHROOT:                  {"chroot", []kind{text}},
	unix.SYS_CLONE:                   {"clone", []kind{hex, memory, memory, memory, memory}},
	unix.SYS_CLONE3:                  {"clone3", []kind{memory, number}},
	unix.SYS_CLOSE:                   {"close", []kind{descriptor}},
	unix.SYS_CLOSE_RANGE:             {"close_range", []kind{number, hex, hex}},
	unix.SYS_DUP3:                    {"dup3", []kind{descriptor, descriptor, hex}},
	unix.SYS_EXECVE:                  {"execve", []kind{text, list, list}},
	unix.SYS_EXECVEAT:                {"execveat", []kind{descriptor, text, list, list, hex}},
	unix.SYS_EXIT_GROUP:              {"exit_group", []kind{number}},
	unix.SYS_FCHDIR:                  {"fchdir", []kind{descriptor}},
	unix.SYS_FCHOWNAT:                {"fchownat", []kind{descriptor, text, number, number, hex}},
	unix.SYS_FCNTL:                   {"fcntl", []kind{descriptor, number, number}},
	unix.SYS_FUTEX:                   {"futex", []kind{memory, number, number, memory, memory, number}},
	unix.SYS_GETPID:                  {"getpid", nil},
	unix.SYS_IOCTL:                   {"ioctl", []kind{descriptor, hex, memory}},
	unix.SYS_LANDLOCK_ADD_RULE:       {"landlock_add_rule", []kind{descriptor, number, memory, number}},
	unix.SYS_LANDLOCK_CREATE_RULESET: {"landlock_create_ruleset", []kind{memory, number, number}},
	unix.SYS_LANDLOCK_RESTRICT_SELF:  {"landlock_restrict_self", []kind{descriptor, number}},
	unix.SYS_MKDIRAT:                 {"mkdirat", []kind{descriptor, text, hex}},
	unix.SYS_MKNODAT:                 {"mknodat", []kind{descriptor, text, hex, number}},
	unix.SYS_MOUNT:                   {"mount", []kind{text, text, text, hex, text}},
	unix.SYS_MOUNT_SETATTR:           {"mount_setattr", []kind{descriptor, text, hex, memory, number}},
	unix.SYS_MOVE_MOUNT:              {"move_mount", []kind{descriptor, text, descriptor, text, hex}},
	unix.SYS_OPENAT:                  {"openat", []kind{descriptor, text, hex, hex}},
	unix.SYS_OPEN_TREE:               {"open_tree", []kind{descriptor, text, hex}},
	unix.SYS_PIVOT_ROOT:              {"pivot_root", []kind{text, text}},
	unix.SYS_PPOLL:                   {"ppoll", []kind{memory, number, memory, memory}},
	unix.SYS_PRCTL:                   {"prctl", []kind{number, number, number, number, number}},
	unix.SYS_PRLIMIT64:               {"prlimit64", []kind{number, number, memory, memory}},
	unix.SYS_RECVFROM:                {"recvfrom", []kind{descriptor, memory, number, hex, memory, memory}},
	unix.SYS_RECVMSG:                 {"recvmsg", []kind{descriptor, memory, hex}},
	unix.SYS_RT_SIGACTION:            {"rt_sigaction", []kind{number, memory, memory, number}},
	unix.SYS_RT_SIGPROCMASK:          {"rt_sigprocmask", []kind{number, memory, memory, number}},
	unix.SYS_SCHED_GET_PRIORITY_MAX:  {"sched_get_priority_max", []kind{number}},
	unix.SYS_SECCOMP:                 {"seccomp", []kind{number, number, memory}},
	unix.SYS_SENDMSG:                 {"sendmsg", []kind{descriptor, memory, hex}},
	unix.SYS_SENDTO:                  {"sendto", []kind{descriptor, memory, number, hex, memory, number}},
	unix.SYS_SETDOMAINNAME:           {"setdomainname", []kind{text, number}},
	unix.SYS_SETGROUPS:               {"setgroups", []kind{number, memory}},
	unix.SYS_SETHOSTNAME:             {"sethostname", []kind{text, number}},
	unix.SYS_SETNS:                   {"setns", []kind{descriptor, hex}},
	unix.SYS_SETRESGID:               {"setresgid", []kind{number, number, number}},
	unix.SYS_SETRESUID:               {"setresuid", []kind{number, number, number}},
	unix.SYS_SETSOCKOPT:              {"setsockopt", []kind{descriptor, number, number, memory, number}},
	unix.SYS_SETSID:                  {"setsid", nil},
	unix.SYS_SOCKET:                  {"socket", []kind{number, number, number}},
	unix.SYS_SYMLINKAT:               {"symlinkat", []kind{text, descriptor, text}},
	unix.SYS_UMASK:                   {"umask", []kind{hex}},
	unix.SYS_UMOUNT2:                 {"umount2", []kind{text, hex}},
	unix.SYS_UNSHARE:                 {"unshare", []kind{hex}},
	unix.SYS_WRITE:                   {"write", []kind{descriptor, text, number}},
}

// Explain prints the steps from one to before another, one system call a line,
// from the very memory that the child will walk. A call marked "?" may fail;
// "-> #n" is a result that becomes an argument of step n.
func (s *Script) Explain(w io.Writer, from, to int) error {
	for i := from; i < to; i++ {
		if _, err := fmt.Fprintf(w, "%4d  %s\n", i, s.explainStep(i)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Script) explainStep(i int) string {
	st := s.step(i)
	call, ok := calls[st.nr]
	if !ok {
		return fmt.Sprintf("syscall_%d", st.nr)
	}
	var b strings.Builder
	b.WriteString(call.name + "(")
	for k, how := range call.args {
		if k > 0 {
			b.WriteString(", ")
		}
		b.WriteString(s.explainArg(st.args[k], how))
	}
	b.WriteString(")" + s.explainFlow(st))
	return b.String()
}

func (s *Script) explainFlow(st *step) string {
	var flow string
	if st.flags&mayFail != 0 {
		flow += " ?"
	}
	target := int(st.dst) - int(s.base()) - controlSize
	if st.dst != 0 && target >= 0 && target < stepsSize {
		flow += fmt.Sprintf(" -> #%d", target/stepSize)
	}
	return flow
}

func (s *Script) explainArg(arg uintptr, how kind) string {
	switch how {
	case text:
		return s.quoted(arg)
	case list:
		return s.quotedList(arg)
	case hex:
		return fmt.Sprintf("%#x", arg)
	case memory:
		if arg == 0 {
			return "NULL"
		}
		return "&data"
	}
	return fmt.Sprint(int64(int32(arg)))
}

// quoted reads a string of the script. Addresses outside of it are never read.
func (s *Script) quoted(at uintptr) string {
	if at == 0 {
		return "NULL"
	}
	offset := int(at) - int(s.base())
	if offset < 0 || offset >= len(s.memory) {
		return "&data"
	}
	raw, _, _ := strings.Cut(string(s.memory[offset:min(offset+256, len(s.memory))]), "\x00")
	return fmt.Sprintf("%q", raw)
}

func (s *Script) quotedList(at uintptr) string {
	offset := int(at) - int(s.base())
	var parts []string
	for offset >= 0 && offset+8 <= len(s.memory) && len(parts) < 64 {
		entry := *(*uintptr)(unsafe.Pointer(&s.memory[offset]))
		if entry == 0 {
			break
		}
		parts = append(parts, s.quoted(entry))
		offset += 8
	}
	return "[" + strings.Join(parts, " ") + "]"
}
