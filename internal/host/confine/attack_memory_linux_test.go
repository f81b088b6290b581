package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// holding is one kind of memory that a process can have the kernel hold for it.
type holding struct {
	name string
	// take takes some more and says how many bytes that was.
	take func() (int64, error)
	// few says that something else than memory bounds it, early.
	few bool
	// open is the word by which docs/SECURITY.md says that nothing bounds it.
	open string
}

// hold takes memory of one kind until it has so many megabytes of it or is
// refused, and says how many it had.
func hold(f facts) error {
	if err := allDescriptors(); err != nil {
		return err
	}
	var h holding
	for _, h = range holdings() {
		if h.name == f.Kind {
			break
		}
	}
	if h.name != f.Kind {
		return fmt.Errorf("there is no kind %q", f.Kind)
	}
	var held int64
	for goal := int64(f.Limit) << 20; held < goal; {
		n, err := h.take()
		if held += n; err != nil {
			return stopped(int(held>>20), err)
		}
	}
	return stopped(int(held>>20), nil)
}

// allDescriptors raises the limit of open files as far as a process may.
func allDescriptors() error {
	var open unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &open); err != nil {
		return err
	}
	open.Cur = open.Max
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &open)
}

func holdings() []holding {
	return []holding{
		{name: "anonymous memory", take: takeAnonymous},
		{name: "page tables", take: takePageTables},
		{name: "a file in /tmp", take: fileTaker("/tmp/held")},
		{name: "a file in /dev/shm", take: fileTaker("/dev/shm/held")},
		{name: "memory files", take: takeMemfd},
		{name: "System V shared memory", take: takeSharedMemory},
		{name: "System V messages", take: takeMessages},
		{name: "POSIX messages", take: takePosixMessages, few: true},
		{name: "empty files", take: takeInodes},
		{name: "attributes of files", take: takeAttributes},
		{name: "locks of files", take: takeLocks, open: "locks of files"},
		{name: "pipes", take: takePipe},
		{name: "unix streams", take: func() (int64, error) { return takeUnix(unix.SOCK_STREAM) }},
		{name: "unix datagrams", take: func() (int64, error) { return takeUnix(unix.SOCK_DGRAM) }},
		{name: "descriptors in flight", take: takeFlight},
		{name: "TCP", take: tcpTaker(true)},
		{name: "TCP that nobody accepts", take: tcpTaker(false), open: "that nobody accepts"},
		{name: "UDP", take: takeUDP},
		{name: "UDP that is not sent yet", take: takeCorked, open: "not sent yet"},
		{name: "answers of netlink", take: takeNetlink, open: "answers of netlink"},
		{name: "epoll watches", take: takeEpoll},
		{name: "inotify events", take: takeInotify},
		{name: "timers", take: takeTimer, few: true},
		{name: "filters of sockets", take: takeSocketFilter},
		{name: "filters of system calls", take: takeFilter},
	}
}

const chunk = 1 << 20

func takeAnonymous() (int64, error) {
	block, err := unix.Mmap(-1, 0, chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	return int64(len(block)), err
}

var readByte byte // so that no compiler leaves the reading out

// takePageTables reads pages of nothing, for each of which there is a table.
func takePageTables() (int64, error) {
	const size, reach = 1 << 30, 2 << 20
	block, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return 0, err
	}
	if err := unix.Madvise(block, unix.MADV_NOHUGEPAGE); err != nil {
		return 0, err
	}
	for i := 0; i < len(block); i += reach {
		readByte = block[i]
	}
	return size / reach * 4096, nil
}

func fileTaker(path string) func() (int64, error) {
	var file *os.File
	block := make([]byte, chunk)
	return func() (_ int64, err error) {
		if file == nil {
			if file, err = os.Create(path); err != nil {
				return 0, err
			}
		}
		n, err := file.Write(block)
		return int64(n), err
	}
}

func takeMemfd() (int64, error) {
	fd, err := unix.MemfdCreate("held", 0)
	if err != nil {
		return 0, err
	}
	n, err := unix.Write(fd, make([]byte, chunk))
	return int64(n), err
}

func takeSharedMemory() (int64, error) {
	id, err := unix.SysvShmGet(0, chunk, unix.IPC_CREAT|0o600)
	if err != nil {
		return 0, err
	}
	block, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return 0, err
	}
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	return chunk, unix.SysvShmDetach(block)
}

// takeMessages fills a queue, which takes 16384 bytes.
func takeMessages() (held int64, err error) {
	id, _, errno := unix.Syscall(unix.SYS_MSGGET, 0, unix.IPC_CREAT|0o600, 0)
	if errno != 0 {
		return 0, errno
	}
	message := make([]byte, 8+8192)
	message[0] = 1
	for range 2 {
		if err := call(unix.SYS_MSGSND, id, address(&message[0]), 8192, unix.IPC_NOWAIT); err != nil {
			return held, err
		}
		held += 8192
	}
	return held, nil
}

var queues int

func takePosixMessages() (held int64, err error) {
	queues++
	name, err := unix.BytePtrFromString("held" + strconv.Itoa(queues))
	if err != nil {
		return 0, err
	}
	queue, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, address(name), unix.O_CREAT|unix.O_RDWR|unix.O_NONBLOCK, 0o600, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	message := make([]byte, 8192)
	for err = nil; err == nil; held += 8192 {
		err = call(unix.SYS_MQ_TIMEDSEND, queue, address(&message[0]), 8192, 0, 0)
	}
	return held - 8192, ifNot(err, unix.EAGAIN)
}

// ifNot is nil for the error that was expected.
func ifNot(err error, expected unix.Errno) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

var filesMade int

// takeInodes makes files. An inode and its name take a kilobyte.
func takeInodes() (int64, error) {
	filesMade++
	fd, err := unix.Open("/dev/shm/file"+strconv.Itoa(filesMade), unix.O_CREAT|unix.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	return 900, unix.Close(fd)
}

func takeAttributes() (int64, error) {
	filesMade++
	path := "/dev/shm/attributed" + strconv.Itoa(filesMade)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return 0, err
	}
	const size = 32 << 10
	return size, unix.Setxattr(path, "user.held", make([]byte, size), 0)
}

var locked struct {
	fd, next int
}

// takeLocks locks every other byte of a file, from the last on. A lock takes over
// 200 bytes.
func takeLocks() (int64, error) {
	const most = 500
	if locked.next == 0 {
		filesMade++
		fd, err := unix.Open("/tmp/locked"+strconv.Itoa(filesMade), unix.O_CREAT|unix.O_RDWR, 0o600)
		if err != nil {
			return 0, err
		}
		locked.fd, locked.next = fd, most
	}
	locked.next--
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(2 * locked.next), Len: 1}
	return 200, unix.FcntlFlock(uintptr(locked.fd), unix.F_SETLK, &lock)
}

func takePipe() (int64, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_NONBLOCK); err != nil {
		return 0, err
	}
	unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, chunk) // or as large as it is
	return fillFd(ends[1], chunk)
}

// fillFd writes to a descriptor that does not block until it takes no more.
func fillFd(fd, most int) (held int64, err error) {
	block := make([]byte, 64<<10)
	for held < int64(most) {
		n, err := unix.Write(fd, block)
		if err != nil {
			return held, ifNot(err, unix.EAGAIN)
		}
		held += int64(n)
	}
	return held, nil
}

// largeBuffers asks for as much as a socket can have.
func largeBuffers(fd int) {
	for _, option := range []int{unix.SO_SNDBUF, unix.SO_RCVBUF} {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 64<<20)
	}
}

func takeUnix(kind int) (int64, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	largeBuffers(pair[0])
	return fillFd(pair[0], 64<<20)
}

// takeFlight sends descriptors that are open nowhere else.
func takeFlight() (held int64, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	for range 8 {
		n, err := sendMemfd(pair[0])
		if held += n; err != nil {
			return held, ifNot(err, unix.EAGAIN)
		}
	}
	return held, nil
}

func sendMemfd(to int) (int64, error) {
	fd, err := unix.MemfdCreate("flying", 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	n, err := unix.Write(fd, make([]byte, chunk))
	if err != nil {
		return 0, err
	}
	return int64(n), unix.Sendmsg(to, []byte{0}, unix.UnixRights(fd), nil, 0)
}

// tcpTaker fills connections to itself, which are accepted or not.
func tcpTaker(accept bool) func() (int64, error) {
	var listener int
	return func() (_ int64, err error) {
		if listener == 0 {
			if listener, err = bound(unix.SOCK_STREAM); err != nil {
				return 0, err
			}
			if err := unix.Listen(listener, 4096); err != nil {
				return 0, err
			}
		}
		fd, err := connected(listener, unix.SOCK_STREAM)
		if err != nil {
			return 0, err
		}
		if accept {
			if _, _, err := unix.Accept4(listener, 0); err != nil {
				return 0, err
			}
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return 0, err
		}
		return fillFd(fd, 64<<20)
	}
}

// bound is a socket with large buffers, bound to the loopback.
func bound(kind int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, kind, 0)
	if err != nil {
		return -1, err
	}
	largeBuffers(fd)
	return fd, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
}

// connected is another one, connected to it.
func connected(to, kind int) (int, error) {
	name, err := unix.Getsockname(to)
	if err != nil {
		return -1, err
	}
	fd, err := bound(kind)
	if err != nil {
		return -1, err
	}
	return fd, unix.Connect(fd, name)
}

// takeUDP sends to a socket that does not read. What is dropped is not held.
func takeUDP() (int64, error) {
	to, err := bound(unix.SOCK_DGRAM)
	if err != nil {
		return 0, err
	}
	from, err := connected(to, unix.SOCK_DGRAM)
	if err != nil {
		return 0, err
	}
	block := make([]byte, 60<<10)
	for range 200 {
		if _, err := unix.Write(from, block); err != nil {
			return queued(to, 0), err
		}
	}
	held := queued(to, 0)
	if held < int64(len(block)) {
		return held, unix.ENOBUFS // everything is dropped
	}
	return held, nil
}

// queued is what a socket holds in its queue: 0 that of what was received, 2 that of
// what is to be sent.
func queued(fd, which int) int64 {
	var info [9]uint32
	size := uint32(unsafe.Sizeof(info))
	if err := call(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO, uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size))); err != nil {
		return 0
	}
	return int64(info[which])
}

// takeCorked begins a datagram and does not end it.
func takeCorked() (int64, error) {
	to, err := bound(unix.SOCK_DGRAM)
	if err != nil {
		return 0, err
	}
	block := make([]byte, 60<<10)
	var held int64
	for range 100 {
		fd, err := connected(to, unix.SOCK_DGRAM)
		if err != nil {
			return held, err
		}
		if err := unix.Send(fd, block, unix.MSG_MORE); err != nil {
			return held, err
		}
		held += queued(fd, 2)
	}
	return held, unix.Close(to)
}

// takeNetlink asks for the loopback again and again and reads no answer.
func takeNetlink() (int64, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return 0, err
	}
	largeBuffers(fd)
	ask := []byte{32, 0, 0, 0, unix.RTM_GETLINK, 0, unix.NLM_F_REQUEST, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for range 4000 {
		if err := unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return queued(fd, 0), ifNot(err, unix.ENOBUFS)
		}
	}
	return queued(fd, 0), nil
}

var watched []int

// takeEpoll watches a thousand descriptors by one more epoll. A watch takes over
// 200 bytes.
func takeEpoll() (held int64, err error) {
	for len(watched) < 1000 {
		fd, err := unix.Eventfd(0, 0)
		if err != nil {
			return 0, err
		}
		watched = append(watched, fd)
	}
	poll, err := unix.EpollCreate1(0)
	if err != nil {
		return 0, err
	}
	for _, fd := range watched {
		if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{}); err != nil {
			return held, err
		}
		held += 200
	}
	return held, nil
}

// takeInotify has events with long names wait to be read. Two that are alike and
// follow each other are one, so there are two files.
func takeInotify() (held int64, err error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	if err != nil {
		return 0, err
	}
	paths := []string{"/dev/shm/1" + strings.Repeat("n", 250), "/dev/shm/2" + strings.Repeat("n", 250)}
	for _, path := range paths {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return 0, err
		}
	}
	if _, err := unix.InotifyAddWatch(fd, "/dev/shm", unix.IN_ATTRIB); err != nil {
		return 0, err
	}
	for range 16 {
		for i := range 1000 {
			if err := unix.Chmod(paths[i%2], 0o600); err != nil {
				return held, err
			}
		}
		queued, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		if err != nil || int64(queued) < held+1000*256 {
			return int64(queued), errors.Join(err, unix.ENOBUFS) // events are dropped
		}
		held = int64(queued)
	}
	return held, nil
}

func takeTimer() (int64, error) {
	var id int32
	return 300, call(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&id)))
}

// longFilter is as long as the kernel allows, and does nothing.
func longFilter() *unix.SockFprog {
	code := make([]unix.SockFilter, 4096)
	for i := range code {
		code[i] = unix.SockFilter{Code: unix.BPF_LD | unix.BPF_IMM, K: uint32(i)}
	}
	code[len(code)-1] = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000}
	return &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
}

// takeSocketFilter gives a filter to one more socket. The kernel keeps what it was
// given and what it made of it, 32 KiB each.
func takeSocketFilter() (int64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return 0, err
	}
	return 64 << 10, unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, longFilter())
}

// takeFilter has one more thread put itself under such filters.
func takeFilter() (held int64, err error) {
	done := make(chan struct{})
	onThreadForever(func() {
		defer close(done)
		program := longFilter()
		for range 6 {
			if err = call(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(program))); err != nil {
				return
			}
			held += 64 << 10
		}
	})
	<-done
	return held, err
}

// onThreadForever runs fn on a thread that then sleeps for as long as the program runs.
func onThreadForever(fn func()) {
	go func() {
		runtime.LockOSThread()
		fn()
		select {}
	}()
}
