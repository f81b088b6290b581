package confine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// patience is how long an ordinary thing may take beside an attack: longer than on an
// emulated machine that has a busy host, and shorter than a lease holds anybody up.
const patience = 25 * time.Second

// ordinaryThings are what programs do all the time.
var ordinaryThings = []struct {
	name string
	do   func() error
}{
	{"pipe", usePipe}, {"inotify", useInotify}, {"epoll", useEpoll}, {"aio", useRequests}, {"unix socket", useUnix},
	{"descriptor", useDescriptor}, {"tcp", useTCP}, {"udp", useUDP}, {"file", useFile}, {"process", useProcess},
	{"memory", useMemory}, {"queue", useQueue}, {"lock", useLock},
}

// victim does ordinary things until it is told to end, and then once more all of them, and
// says which of them failed or took long.
func victim(facts) error {
	end := make(chan os.Signal, 1)
	signal.Notify(end, unix.SIGTERM)
	fmt.Println("ready")
	for rounds, last := 1, false; ; rounds++ {
		for _, thing := range ordinaryThings {
			start := time.Now()
			if err := thing.do(); err != nil {
				fmt.Printf("%s: %v\n", thing.name, err)
			} else if took := time.Since(start); took > patience {
				fmt.Printf("%s: took %v\n", thing.name, took)
			}
		}
		if last {
			fmt.Println("rounds", rounds)
			return nil
		}
		select {
		case <-end:
			last = true // the round that it came in may have begun before what is to be noticed
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// usePipe wants the 64 KiB that every pipe has.
func usePipe() error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_NONBLOCK); err != nil {
		return err
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	n, err := unix.Write(ends[1], make([]byte, 64<<10))
	if err == nil && n < 64<<10 {
		err = fmt.Errorf("it holds %d bytes", n)
	}
	return err
}

func useInotify() error {
	fd, err := unix.InotifyInit1(0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, os.TempDir(), unix.IN_CREATE)
	return err
}

func useEpoll() error {
	fd, err := unix.EpollCreate1(0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	watched, err := unix.Eventfd(0, 0)
	if err != nil {
		return err
	}
	defer unix.Close(watched)
	return unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, watched, &unix.EpollEvent{})
}

// useRequests goes without where there are none.
func useRequests() error {
	var context uintptr
	err := call(unix.SYS_IO_SETUP, 16, uintptr(unsafe.Pointer(&context)))
	if err != nil {
		return ifNot(err, unix.ENOSYS)
	}
	return call(unix.SYS_IO_DESTROY, context)
}

func useUnix() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	return exchange(pair[0], pair[1], 32<<10)
}

// exchange writes to one descriptor and reads it from another.
func exchange(to, from, size int) error {
	if _, err := unix.Write(to, make([]byte, size)); err != nil {
		return err
	}
	for got := 0; got < size; {
		n, err := unix.Read(from, make([]byte, size))
		if err != nil || n == 0 {
			return errors.Join(err, fmt.Errorf("%d bytes of %d", got, size))
		}
		got += n
	}
	return nil
}

func useDescriptor() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	return unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(pair[1]), nil, 0)
}

func useTCP() error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	out, err := net.DialTimeout("tcp4", listener.Addr().String(), patience)
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := listener.Accept()
	if err != nil {
		return err
	}
	defer in.Close()
	for _, c := range []net.Conn{in, out} {
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
	}
	if _, err := out.Write(make([]byte, 16<<10)); err != nil {
		return err
	}
	_, err = in.Read(make([]byte, 16<<10))
	return err
}

func useUDP() error {
	to, err := bound(unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	from, err := connected(to, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	wait := unix.NsecToTimeval(int64(patience))
	return errors.Join(unix.SetsockoptTimeval(to, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait), exchange(from, to, 8<<10))
}

func useFile() error {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("victim-%d", os.Getpid()))
	return errors.Join(os.WriteFile(path, make([]byte, 64<<10), 0o600), os.Remove(path))
}

func useProcess() error { return exec.Command("/usr/bin/true").Run() }

func useMemory() error {
	block, err := unix.Mmap(-1, 0, 8*chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	return unix.Munmap(block)
}

// useQueue has a System V queue.
func useQueue() error {
	id, _, errno := unix.Syscall(unix.SYS_MSGGET, 0, unix.IPC_CREAT|0o600, 0)
	if errno != 0 {
		return errno
	}
	return call(unix.SYS_MSGCTL, id, unix.IPC_RMID, 0)
}

func useLock() error {
	file, err := os.CreateTemp("", "victim-lock")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	return unix.FcntlFlock(file.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
}
