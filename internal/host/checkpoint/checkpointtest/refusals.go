package checkpointtest

// Refusal is something that a process holds which a fork says no to, in what words,
// and whether waiting helps.
type Refusal struct {
	Name, Before, Says string
	Retry              bool
}

// Program is the text of a python program that then lives on.
func (r Refusal) Program() string { return Kind{Before: r.Before, Answer: "return 'lives'"}.Program() }

// cloneShared clones a process that waits for ever, in a few instructions that need
// nothing but a stack.
const cloneShared = `
code = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
code.write(bytes.fromhex("b8220000000f05ebf7"))
stack = mmap.mmap(-1, 65536, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
def address(m): return ctypes.addressof(ctypes.c_char.from_buffer(m))
def clone(flags): call(libc.clone(ctypes.c_void_p(address(code)), ctypes.c_void_p(address(stack) + 65536), flags, None))
`

// Refused are all of them.
var Refused = []Refusal{
	{"established TCP connection", `
l = socket.socket(); l.bind(("127.0.0.1", 8080)); l.listen()
c = socket.create_connection(("127.0.0.1", 8080)); s, _ = l.accept()`, "established TCP connection", false},
	{"TCP connection to accept", `
l = socket.socket(); l.bind(("127.0.0.1", 8080)); l.listen()
c = socket.create_connection(("127.0.0.1", 8080)); c.close(); del c`, "connections to accept", true},
	{"unix connection to accept", `
l = socket.socket(socket.AF_UNIX); l.bind("\0x"); l.listen()
c = socket.socket(socket.AF_UNIX); c.connect("\0x")`, "accept", true},
	{"descriptor on its way", `
a, b = socket.socketpair()
socket.send_fds(a, [b"x"], [0])`, "on their way", true},
	{"datagram on its way", `
u = socket.socket(type=socket.SOCK_DGRAM); u.bind(("127.0.0.1", 5353)); u.sendto(b"x", ("127.0.0.1", 5353))`, "datagrams", true},
	{"multicast", `
u = socket.socket(type=socket.SOCK_DGRAM); u.bind(("", 5353))
u.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("224.1.1.1") + socket.inet_aton("127.0.0.1"))`, "multicast", false},
	{"multicast of version 6", `
u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); u.bind(("::", 5353))
u.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, "ff02::123") + struct.pack("I", 1))`, "multicast", false},
	{"epoll set that watches what is closed", `
p = select.epoll(); e = os.eventfd(0); f = os.dup(e); p.register(e, select.EPOLLIN); os.close(e)`, "epoll", false},
	{"epoll set that watches by a number of another", `
p = select.epoll(); e = os.eventfd(0); f = os.dup(e); p.register(e, select.EPOLLIN); os.dup2(os.eventfd(0), e)`, "epoll", false},
	{"netlink", `n = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)`, "another family", false},
	{"shared memory of System V", `
i = call(libc.shmget(0, 4096, 0o1600)); libc.shmat.restype = ctypes.c_void_p; at = libc.shmat(i, None, 0)`, "System V", false},
	{"shared memory of System V, not attached", `i = call(libc.shmget(0, 4096, 0o1600))`, "shmget", false},
	{"semaphores of System V", `i = call(libc.semget(0, 1, 0o1600))`, "semget", false},
	{"message queues of System V", `i = call(libc.msgget(0, 0o1600))`, "msgget", false},
	{"huge pages of hugetlbfs", `
try: h = os.memfd_create("huge", os.MFD_HUGETLB)
except OSError: pass
else: os.ftruncate(h, 2 << 20)`, "hugetlbfs", false},
	{"vfork whose child has not executed", `
code = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
code.write(bytes.fromhex("b83a0000000f0585c07507b8220000000f05c3"))
at = ctypes.addressof(ctypes.c_char.from_buffer(code))
threading.Thread(target=ctypes.CFUNCTYPE(None)(at), daemon=True).start()
while not open("/proc/self/task/%d/children" % threading.enumerate()[-1].native_id).read(): time.sleep(0.01)`, "vfork", true},
	{"process that shares the memory of another", cloneShared + `clone(0x100 | signal.SIGCHLD)`, "shares its memory with process", false},
	{"process that shares the descriptors of another", cloneShared + `clone(0x400 | signal.SIGCHLD)`, "shares its descriptors with process", false},
	{"process that shares the directory of another", cloneShared + `clone(0x200 | signal.SIGCHLD)`, "shares its directory with process", false},
	{"thread with descriptors of its own", cloneShared + `clone(0x10000 | 0x800 | 0x200 | 0x100)`, "has a thread with descriptors of its own", false},
	{"thread with a directory of its own", cloneShared + `clone(0x10000 | 0x800 | 0x400 | 0x100)`, "has a thread with a directory of its own", false},
	{"tracing another process", `
child = os.fork()
if child == 0: signal.pause()
libc.ptrace(16, child, None, None)`, "is traced by another process", false},
	{"named pipe", `
os.mkfifo("/tmp/fifo"); f = os.open("/tmp/fifo", os.O_RDWR)`, "named pipe", false},
	{"inotify", `i = call(libc.inotify_init())`, "inotify", false},
	{"message queue", `
q = libc.mq_open(b"/q", os.O_RDWR | os.O_CREAT, 0o600, None); call(q)`, "message queue", false},
	{"signals for a descriptor", `
r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC)`, "O_ASYNC", false},
	{"removed file that has another name", `
f = os.open("/tmp/one", os.O_RDWR | os.O_CREAT); os.link("/tmp/one", "/tmp/two"); os.unlink("/tmp/one")`, "has another", false},
	{"removed directory", `os.mkdir("/tmp/rm"); os.chdir("/tmp/rm"); os.rmdir("/tmp/rm")`, "removed", false},
	{"filter of its own", `
call(libc.prctl(38, 1, 0, 0, 0))
code = (ctypes.c_char * 8).from_buffer_copy(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
call(libc.prctl(22, 2, struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)), 0, 0))`, "filters of its own", false},
	{"file of itself", `f = os.open("/proc/self/status", os.O_RDONLY)`, "tells of a process", false},
}
