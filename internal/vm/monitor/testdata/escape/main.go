// Command escape is what a guest would be that has taken its monitor over: it confines
// itself as the monitor does, and tries what would lead further. It says what it could do.
// Started as a monitor is, it answers as one first, when it is confined.
package main

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"aether/internal/host/guestinit"
	"aether/internal/host/kvm"
	"aether/internal/host/seccomp"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.GOMAXPROCS(5)
	filter, err := seccomp.OnlyRequests(seccomp.MachineCalls, kvm.Requests())
	if err == nil {
		err = guestinit.Filter(filter)
	}
	if err != nil {
		fmt.Println("not confined:", err)
		os.Exit(1)
	}
	if len(os.Args) > 1 {
		answer()
	}
	for _, a := range attempts() {
		if _, _, errno := unix.Syscall6(a.call, a.args[0], a.args[1], a.args[2], a.args[3], a.args[4], a.args[5]); errno == 0 {
			fmt.Println("could", a.what)
		}
	}
	// What it is there for still works, threads among it.
	done := make(chan int)
	for range 8 {
		go func() {
			runtime.LockOSThread()
			done <- unix.Gettid()
		}()
	}
	for range 8 {
		<-done
	}
	fmt.Println("tried", len(attempts()))
}

// answer takes one request over the control socket, which is the first that it is given.
func answer() {
	control := os.NewFile(3, "control")
	request := make([]byte, 64)
	n, err := control.Read(request)
	if err == nil {
		_, err = control.WriteString("ok\n")
	}
	if err != nil || string(request[:n]) != "hello\n" {
		fmt.Printf("asked %q, %v\n", request[:n], err)
	}
}

type attempt struct {
	what string
	call uintptr
	args [6]uintptr
}

func text(s string) uintptr {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		panic(err)
	}
	kept = append(kept, p)
	return uintptr(unsafe.Pointer(p))
}

var (
	kept []*byte // so that they stay where they are
	room [4096]byte
)

func attempts() []attempt {
	buffer := uintptr(unsafe.Pointer(&room[0]))
	here := ^uintptr(99) // AT_FDCWD
	list := []attempt{
		{"open the root", unix.SYS_OPENAT, [6]uintptr{here, text("/"), unix.O_RDONLY}},
		{"open its memory", unix.SYS_OPEN, [6]uintptr{text("/proc/self/mem"), unix.O_RDWR}},
		{"open by openat2", unix.SYS_OPENAT2, [6]uintptr{here, text("/"), buffer, 24}},
		{"make a file", unix.SYS_CREAT, [6]uintptr{text("/file"), 0o600}},
		{"read a directory", unix.SYS_GETDENTS64, [6]uintptr{0, buffer, 4096}},
		{"execute a program", unix.SYS_EXECVE, [6]uintptr{text("/proc/self/exe"), 0, 0}},
		{"execute a descriptor", unix.SYS_EXECVEAT, [6]uintptr{0, text(""), 0, 0, unix.AT_EMPTY_PATH}},
		{"fork", unix.SYS_FORK, [6]uintptr{}},
		{"clone a process", unix.SYS_CLONE, [6]uintptr{uintptr(unix.SIGCHLD)}},
		{"clone by clone3", unix.SYS_CLONE3, [6]uintptr{buffer, 88}},
		{"clone a user namespace", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWUSER | unix.CLONE_THREAD}},
		{"unshare", unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_NEWUSER}},
		{"enter a namespace", unix.SYS_SETNS, [6]uintptr{0, 0}},
		{"mount", unix.SYS_MOUNT, [6]uintptr{text("proc"), text("/"), text("proc")}},
		{"open a file system", unix.SYS_FSOPEN, [6]uintptr{text("proc"), 0}},
		{"change its root", unix.SYS_CHROOT, [6]uintptr{text("/")}},
		{"trace", unix.SYS_PTRACE, [6]uintptr{unix.PTRACE_TRACEME}},
		{"read another's memory", unix.SYS_PROCESS_VM_READV, [6]uintptr{1, buffer, 1, buffer, 1}},
		{"open a process", unix.SYS_PIDFD_OPEN, [6]uintptr{1}},
		{"signal all", unix.SYS_KILL, [6]uintptr{^uintptr(0), 0}},
		{"be another user", unix.SYS_SETUID, [6]uintptr{0}},
		{"have capabilities", unix.SYS_CAPSET, [6]uintptr{buffer, buffer}},
		{"load a program into the kernel", unix.SYS_BPF, [6]uintptr{0, buffer, 64}},
		{"watch the kernel", unix.SYS_PERF_EVENT_OPEN, [6]uintptr{buffer, 0, ^uintptr(0), ^uintptr(0)}},
		{"use io_uring", unix.SYS_IO_URING_SETUP, [6]uintptr{8, buffer}},
		{"use userfaultfd", unix.SYS_USERFAULTFD, [6]uintptr{1}},
		{"use keys", unix.SYS_KEYCTL, [6]uintptr{0, ^uintptr(2), 1}},
		{"make a file in memory", unix.SYS_MEMFD_CREATE, [6]uintptr{text("file"), 0}},
		{"have memory executed", unix.SYS_MPROTECT, [6]uintptr{buffer &^ 4095, 4096, unix.PROT_EXEC}},
		{"another filter", unix.SYS_SECCOMP, [6]uintptr{2, 0, buffer}},
		{"set what it is", unix.SYS_PRCTL, [6]uintptr{unix.PR_SET_DUMPABLE, 1}},
		{"type into a terminal", unix.SYS_IOCTL, [6]uintptr{0, unix.TIOCSTI, buffer}},
		{"ask what is no request of KVM", unix.SYS_IOCTL, [6]uintptr{1, unix.TIOCINQ, buffer}},
	}
	for _, family := range []uintptr{unix.AF_UNIX, unix.AF_INET, unix.AF_NETLINK, unix.AF_PACKET, unix.AF_VSOCK, unix.AF_ALG} {
		list = append(list, attempt{fmt.Sprint("make a socket of family ", family), unix.SYS_SOCKET, [6]uintptr{family, unix.SOCK_STREAM}})
	}
	return list
}
