package confine

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What a resident of one cell leaves lying about for the neighbour.
const (
	ipcKey       = 0x5ae7
	mark         = "/tmp/resident-was-here"
	queueName    = "aether-escape"
	abstractName = "aether-escape-resident"
	residentName = "a-resident"
)

// resident makes one of everything that namespaces keep apart, says at which
// port it listens, and stays.
func resident(facts) error {
	if err := os.WriteFile(mark, []byte("x"), 0o666); err != nil {
		return err
	}
	for _, nr := range []uintptr{unix.SYS_SHMGET, unix.SYS_MSGGET} {
		if err := makesIPC(nr, unix.IPC_CREAT|0o666); err != nil {
			return fmt.Errorf("ipc call %d: %w", nr, err)
		}
	}
	if err := opensQueue(unix.O_CREAT); err != nil {
		return fmt.Errorf("mq_open: %w", err)
	}
	if _, err := net.Listen("unix", "@"+abstractName); err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	time.Sleep(time.Minute)
	return nil
}

// makesIPC is shmget(key, size, flags) or msgget(key, flags).
func makesIPC(nr uintptr, flags uintptr) error {
	if nr == unix.SYS_SHMGET {
		return call(nr, ipcKey, 4096, flags)
	}
	return call(nr, ipcKey, flags)
}

func opensQueue(flags uintptr) error {
	name, err := unix.BytePtrFromString(queueName)
	if err != nil {
		return err
	}
	return call(unix.SYS_MQ_OPEN, address(name), unix.O_RDWR|flags, 0o666, 0)
}

// neighbour looks for what the resident made.
func neighbour(f facts) error { return answerAll(neighbourTrials(f)) }

func neighbourTrials(f facts) []trial {
	noEntry := []syscall.Errno{unix.ENOENT}
	return []trial{
		{"its file", func() error { return syscallError(os.Stat(mark)) }, noEntry},
		{"its shared memory", func() error { return makesIPC(unix.SYS_SHMGET, 0) }, noEntry},
		{"its message queue", func() error { return makesIPC(unix.SYS_MSGGET, 0) }, noEntry},
		{"its POSIX message queue", func() error { return opensQueue(0) }, noEntry},
		{"its abstract socket", func() error { return dials("unix", "@"+abstractName) }, []syscall.Errno{unix.ECONNREFUSED}},
		{"its port", func() error { return dials("tcp4", "127.0.0.1:"+strconv.Itoa(f.OtherPort)) }, []syscall.Errno{unix.ECONNREFUSED}},
		{"its process", seesResident, nil},
		{"another host name", func() error { return anotherName(f.Hostname) }, nil},
	}
}

func seesResident() error {
	for _, p := range others() {
		if strings.Contains(p.text("cmdline"), residentName) {
			return nil
		}
	}
	return errHeld
}

func anotherName(own string) error {
	name, err := os.Hostname()
	if err == nil && name == own {
		err = errHeld
	}
	return err
}

// lingerName is in the arguments of processes that want to outlive their cell.
const lingerName = "aether-escape-linger"

// daemons starts processes in sessions of their own that start others and end,
// as daemons do, and ends too.
func daemons(f facts) error {
	for range 3 {
		if err := startLinger(f.Limit); err != nil {
			return err
		}
	}
	return nil
}

// startLinger plays linger with so many generations to come.
func startLinger(generations int) error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{lingerName}
	cmd.Env = append(os.Environ(), attackVariable+"=linger", fmt.Sprintf("%s={\"Limit\":%d}", factsVariable, generations))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

func linger(f facts) error {
	signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT)
	if f.Limit > 0 {
		return startLinger(f.Limit - 1)
	}
	time.Sleep(time.Minute)
	return nil
}
