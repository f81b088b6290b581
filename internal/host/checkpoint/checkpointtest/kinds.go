// Package checkpointtest has everything that a process may hold, as programs that
// make it and say what has become of it, for the tests of those who checkpoint and
// fork processes.
package checkpointtest

import (
	"fmt"
	"strings"
)

// Kind is something that a process may hold in a fork. The program makes it, says
// that it is primed, and when it is spoken to says what has become of it: the same
// in the child, in the child's child and in the source, each by itself.
type Kind struct {
	Name string
	// Before makes the thing, Answer is the body of a function that looks at it, and Want
	// what that gives.
	Before, Answer string
	Want           string
}

const holder = `
import ctypes, fcntl, mmap, os, select, signal, socket, struct, sys, threading, time, traceback
libc = ctypes.CDLL(None, use_errno=True)
def call(result):
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
%s
def answer():
%s
print("primed", flush=True)
while True:
    line = sys.stdin.readline()
    if not line: break
    try: print(answer(), flush=True)
    except Exception as e: print(repr(e), flush=True)
`

// Program is the text of the python program.
func (k Kind) Program() string {
	indented := "    " + strings.ReplaceAll(strings.TrimSpace(k.Answer), "\n", "\n    ")
	return fmt.Sprintf(holder, k.Before, indented)
}

// turn tells how long the turns of the thread are, where the kernel does, and sets it.
const turn = `
def turn(length=0):
    attr = ctypes.create_string_buffer(48)
    if length: call(libc.syscall(314, 0, struct.pack("IIQiIQQQ", 48, 0, 0, 0, 0, length, 0, 0), 0))
    call(libc.syscall(315, 0, attr, 48, 0))
    return struct.unpack("IIQiIQQQ", attr.raw)[5]`

// Carried are those that a fork has too.
var Carried = []Kind{
	{"pipe with content", `
r, w = os.pipe()
os.write(w, b"abc")`, `
os.write(w, b"d")
return os.read(r, 10).decode()`, "abcd"},
	{"pipe written by the lower number", `
r, w = os.pipe()
os.dup2(w, 40); os.dup2(r, 41); os.close(r); os.close(w)
os.write(40, b"abc")`, `
return os.read(41, 10).decode(), os.get_blocking(40), os.get_blocking(41)`, "('abc', True, True)"},
	{"pipe without reader", `
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
r, w = os.pipe(); os.close(r)`, `
try: os.write(w, b"x")
except BrokenPipeError: return "broken"`, "broken"},
	{"pipe of another size", `
r, w = os.pipe()
fcntl.fcntl(w, 1031, 1 << 20)
os.set_blocking(r, False); os.set_blocking(w, False)
n = os.write(w, b"x" * 700000)`, `
return fcntl.fcntl(r, 1032), len(os.read(r, 1 << 20)) if n else 0, os.get_blocking(r)`, "(1048576, 700000, False)"},
	{"pipe opened twice", `
r, w = os.pipe()
again = os.open("/proc/self/fd/%d" % w, os.O_WRONLY | os.O_NONBLOCK)`, `
os.write(again, b"1"); os.write(w, b"2")
return os.read(r, 9).decode(), os.get_blocking(w), os.get_blocking(again)`, "('12', True, False)"},
	{"eventfd", `e = os.eventfd(41, os.EFD_NONBLOCK)`, `
os.eventfd_write(e, 1)
return os.eventfd_read(e)`, "42"},
	{"eventfd semaphore", `e = os.eventfd(3, os.EFD_NONBLOCK | os.EFD_SEMAPHORE)`, `
return os.eventfd_read(e), os.eventfd_read(e), os.eventfd_read(e)`, "(1, 1, 1)"},
	{"barriers on all processors (membarrier)", `
register = lambda: call(libc.syscall(324, 1 << 4, 0, 0))
register()`, `
return libc.syscall(324, 1 << 3, 0, 0)`, "0"},
	{"epoll", `
p = select.epoll(); e = os.eventfd(1)
p.register(e, select.EPOLLIN)`, `return [(fd == e, ev) for fd, ev in p.poll(2)]`, "[(True, 1)]"},
	{"epoll within epoll", `
p = select.epoll(); q = select.epoll(); e = os.eventfd(0)
q.register(e, select.EPOLLIN); p.register(q.fileno(), select.EPOLLIN)`, `
os.eventfd_write(e, 1)
return [fd == q.fileno() for fd, _ in p.poll(2)]`, "[True]"},
	{"epoll, edge-triggered", `
p = select.epoll(); e = os.eventfd(0)
p.register(e, select.EPOLLIN | select.EPOLLET)`, `
os.eventfd_write(e, 1)
return len(p.poll(2)), len(p.poll(0))`, "(1, 0)"},
	{"epoll set that a child of its own shares", `
p = select.epoll(); e = os.eventfd(0); p.register(e, select.EPOLLIN)
r, w = os.pipe(); back, done = os.pipe()
if os.fork() == 0:
    while os.read(r, 1): os.write(done, b"%d" % len(p.poll(2)))`, `
os.eventfd_write(e, 1); os.write(w, b"x")
return os.read(back, 1), len(p.poll(2))`, "(b'1', 1)"},
	{"timerfd", `
t = call(libc.timerfd_create(1, 0))
call(libc.timerfd_settime(t, 0, struct.pack("qqqq", 0, 0, 100000, 0), None))`, `
now = ctypes.create_string_buffer(32)
call(libc.timerfd_gettime(t, now))
return 99000 < struct.unpack("qqqq", now.raw)[2] <= 100000`, "True"},
	{"timerfd with an interval", `
t = call(libc.timerfd_create(1, 0))
call(libc.timerfd_settime(t, 0, struct.pack("qqqq", 0, 1000000, 0, 1000000), None))`, `
return struct.unpack("Q", os.read(t, 8))[0] > 0`, "True"},
	{"signalfd", `
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
s = call(libc.signalfd(-1, struct.pack("Q", 1 << (signal.SIGUSR1 - 1)), 0))`, `
os.kill(os.getpid(), signal.SIGUSR1)
return struct.unpack("I", os.read(s, 128)[:4])[0] == signal.SIGUSR1`, "True"},
	{"handler of breakpoints", `
heard = []
signal.signal(signal.SIGTRAP, lambda *_: heard.append(1))`, `
os.kill(os.getpid(), signal.SIGTRAP)
return len(heard)`, "1"},
	{"breakpoints that are ignored", `signal.signal(signal.SIGTRAP, signal.SIG_IGN)`, `
os.kill(os.getpid(), signal.SIGTRAP)
return signal.getsignal(signal.SIGTRAP) == signal.SIG_IGN`, "True"},
	{"breakpoint that waits", `
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTRAP])
os.kill(os.getpid(), signal.SIGTRAP)`, `
return signal.SIGTRAP in signal.sigpending(), signal.sigwait([signal.SIGTRAP]) == signal.SIGTRAP, signal.SIGTRAP in signal.sigpending()`, "(True, True, False)"},
	{"socketpair with content", `
a, b = socket.socketpair()
a.send(b"abc"); a.send(b"def"); b.send(b"back")`, `
a.send(b"g")
return b.recv(100).decode(), a.recv(100).decode()`, "('abcdefg', 'back')"},
	{"socketpair of messages", `
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
a.send(b"one"); a.send(b"two")`, `
return b.recv(100).decode(), b.recv(100).decode()`, "('one', 'two')"},
	{"socketpair of datagrams", `
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
a.send(b"one"); a.send(b"two")`, `
return b.recv(100).decode(), b.recv(100).decode()`, "('one', 'two')"},
	{"socketpair whose other end is closed", `
a, b = socket.socketpair()
a.send(b"last"); a.close()`, `
return b.recv(100), b.recv(100)`, "(b'last', b'')"},
	{"socketpair shut down for writing", `
a, b = socket.socketpair()
a.send(b"last"); a.shutdown(socket.SHUT_WR)`, `
b.send(b"still")
return b.recv(100), b.recv(100), a.recv(100)`, "(b'last', b'', b'still')"},
	{"unix socket that listens on a path", `
l = socket.socket(socket.AF_UNIX); l.bind("/tmp/listens"); os.chmod("/tmp/listens", 0o701); l.listen(5)`, `
c = socket.socket(socket.AF_UNIX); c.connect("/tmp/listens")
s, _ = l.accept(); c.send(b"hi")
return s.recv(9).decode(), l.getsockname(), oct(os.stat("/tmp/listens").st_mode & 0o777)`, "('hi', '/tmp/listens', '0o701')"},
	{"unix socket that listens on a relative path", `
os.chdir("/tmp")
l = socket.socket(socket.AF_UNIX); l.bind("relative"); l.listen(5)`, `
c = socket.socket(socket.AF_UNIX); c.connect("/tmp/relative")
s, _ = l.accept(); c.send(b"hi")
return s.recv(9).decode(), l.getsockname()`, "('hi', 'relative')"},
	{"abstract unix socket that listens", `
l = socket.socket(socket.AF_UNIX); l.bind("\0abstract"); l.listen(5)`, `
c = socket.socket(socket.AF_UNIX); c.connect("\0abstract")
s, _ = l.accept(); c.send(b"hi")
return s.recv(9).decode()`, "hi"},
	{"accepted unix connection", `
l = socket.socket(socket.AF_UNIX); l.bind("/tmp/accepts"); l.listen(5)
c = socket.socket(socket.AF_UNIX); c.connect("/tmp/accepts")
s, _ = l.accept(); s.send(b"hello ")`, `
s.send(b"there")
return c.recv(99).decode(), c.getpeername(), s.getsockname()`, "('hello there', '/tmp/accepts', '/tmp/accepts')"},
	{"bound unix datagrams", `
l = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); l.bind("/tmp/datagrams")
c = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); c.connect("/tmp/datagrams")`, `
c.send(b"d")
return l.recv(9).decode()`, "d"},
	{"TCP socket that listens", `
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind(("127.0.0.1", 8080)); l.listen(7)`, `
c = socket.create_connection(("127.0.0.1", 8080), 5); s, _ = l.accept(); c.send(b"hi")
return s.recv(9).decode(), l.getsockname(), l.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)`, "('hi', ('127.0.0.1', 8080), 1)"},
	{"TCP socket of version 6 that listens", `
l = socket.socket(socket.AF_INET6); l.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
l.bind(("::", 8081)); l.listen()`, `
c = socket.create_connection(("127.0.0.1", 8081), 5); s, _ = l.accept(); c.send(b"hi")
return s.recv(9).decode()`, "hi"},
	{"TCP connection that is over", `
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen()
c = socket.create_connection(l.getsockname()); d = socket.create_connection(l.getsockname())
for s in l.accept()[0], l.accept()[0]: s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); s.close()
p = select.epoll(); p.register(c, select.EPOLLIN); d.setblocking(False)`, `
told = [e & select.EPOLLHUP != 0 for fd, e in p.poll(0)]
try: c.recv(1)
except OSError as e: told.append(type(e).__name__)
try: d.send(b"x")
except OSError as e: told.append(type(e).__name__)
return told + [os.get_blocking(c.fileno()), os.get_blocking(d.fileno())]`, "[True, 'ConnectionResetError', 'ConnectionResetError', True, False]"},
	{"TCP socket, fresh", `s = socket.socket(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)`, `
return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)`, "1"},
	{"UDP socket", `
u = socket.socket(type=socket.SOCK_DGRAM); u.bind(("127.0.0.1", 5353)); u.settimeout(60)
c = socket.socket(type=socket.SOCK_DGRAM); c.connect(("127.0.0.1", 5353))`, `
c.send(b"d")
return u.recv(9).decode(), c.getpeername()`, "('d', ('127.0.0.1', 5353))"},
	{"memfd", `
m = os.memfd_create("name", os.MFD_ALLOW_SEALING); os.write(m, b"held"); os.lseek(m, 1, 0)
fcntl.fcntl(m, 1033, 2)`, `
return os.read(m, 9), os.readlink("/proc/self/fd/%d" % m), fcntl.fcntl(m, 1034)`, "(b'eld', '/memfd:name (deleted)', 2)"},
	{"memfd, sparse", `
m = os.memfd_create("sparse"); os.ftruncate(m, 1 << 40); os.pwrite(m, b"far", 1 << 39)`, `
return os.pread(m, 3, 1 << 39), os.fstat(m).st_size == 1 << 40, os.fstat(m).st_blocks`, "(b'far', True, 8)"},
	{"memfd, mapped", `
m = os.memfd_create("mapped"); os.ftruncate(m, 8192); a = mmap.mmap(m, 8192); b = mmap.mmap(m, 8192)
a[0:4] = b"held"`, `
a[4:6] = b"by"
return b[0:6], os.pread(m, 6, 0)`, "(b'heldby', b'heldby')"},
	{"shared memory without a name", `
a = mmap.mmap(-1, 1 << 20); a[5000:5004] = b"held"`, `
a[5004] = 33
return a[5000:5005]`, "b'held!'"},
	{"shared memory with a name", `
m = os.open("/dev/shm/named", os.O_RDWR | os.O_CREAT); os.ftruncate(m, 4096); a = mmap.mmap(m, 4096); a[0:4] = b"held"`, `
a[4] = 33
return os.pread(m, 5, 0), open("/dev/shm/named", "rb").read(5)`, "(b'held!', b'held!')"},
	{"shared memory whose name was removed", `
m = os.open("/dev/shm/gone", os.O_RDWR | os.O_CREAT); os.unlink("/dev/shm/gone")
os.ftruncate(m, 4096); a = mmap.mmap(m, 4096); a[0:4] = b"held"`, `
a[4] = 33
return os.pread(m, 5, 0), os.fstat(m).st_nlink`, "(b'held!', 0)"},
	{"file mapped for writing", `
m = os.open("/tmp/file", os.O_RDWR | os.O_CREAT); os.ftruncate(m, 4096); a = mmap.mmap(m, 4096); a[0:4] = b"held"`, `
a[4] = 33
return os.pread(m, 5, 0), open("/tmp/file", "rb").read(5)`, "(b'held!', b'held!')"},
	{"file mapped for reading", `
open("/tmp/read", "w").write("held"); m = os.open("/tmp/read", os.O_RDONLY); a = mmap.mmap(m, 4, prot=mmap.PROT_READ)`, `
open("/tmp/read", "r+").write("mine")
return a[0:4]`, "b'mine'"},
	{"private memory of a removed file", `
f = os.open("/tmp/code", os.O_RDWR | os.O_CREAT); os.write(f, b"held" * 2048); a = mmap.mmap(f, 8192, flags=mmap.MAP_PRIVATE)
os.unlink("/tmp/code"); os.close(f); a[0:4] = b"mine"`, `
return a[0:8], a[4096:4100]`, "(b'mineheld', b'held')"},
	{"private memory of a file", `
f = os.open("/tmp/data", os.O_RDWR | os.O_CREAT); os.write(f, b"held" * 2048); a = mmap.mmap(f, 8192, flags=mmap.MAP_PRIVATE); a[0:4] = b"mine"`, `
os.pwrite(f, b"next", 4096)
return a[0:8], a[4096:4104], "/tmp/data" in open("/proc/self/maps").read()`, "(b'mineheld', b'nextheld', True)"},
	{"memory that cannot be read", `
a = mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); a[0:4] = b"held"
at = ctypes.addressof(ctypes.c_char.from_buffer(a)); call(libc.mprotect(ctypes.c_void_p(at), 8192, 0))`, `
call(libc.mprotect(ctypes.c_void_p(at), 8192, 3)); seen = a[0:4]; call(libc.mprotect(ctypes.c_void_p(at), 8192, 0))
return seen`, "b'held'"},
	{"removed file", `
f = os.open("/tmp/removed", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o640); os.unlink("/tmp/removed")
os.write(f, b"held"); os.lseek(f, 2, 0)`, `
os.write(f, b"!")
return os.pread(f, 9, 0), os.fstat(f).st_nlink, oct(os.fstat(f).st_mode & 0o777)`, "(b'held!', 0, '0o640')"},
	{"removed file, opened twice", `
f = os.open("/tmp/twice", os.O_RDWR | os.O_CREAT); g = os.open("/tmp/twice", os.O_RDONLY); os.unlink("/tmp/twice")
os.write(f, b"held")`, `
os.write(f, b"!")
return os.read(g, 9), fcntl.fcntl(g, fcntl.F_GETFL) & 3`, "(b'held!', 0)"},
	{"file that only looks removed", `f = os.open("/tmp/x (deleted)", os.O_RDWR | os.O_CREAT); os.write(f, b"held")`, `
return open("/tmp/x (deleted)").read(), os.fstat(f).st_nlink`, "('held', 1)"},
	{"directory", `os.makedirs("/tmp/dir/sub"); d = os.open("/tmp/dir", os.O_RDONLY)`, `return os.listdir(d)`, "['sub']"},
	{"offset of one open file", `
open("/tmp/offset", "w").write("abcdef"); f = os.open("/tmp/offset", os.O_RDONLY); g = os.dup(f); h = os.open("/tmp/offset", os.O_RDONLY)
os.read(f, 2)`, `
return os.read(g, 1), os.read(f, 1), os.read(h, 1)`, "(b'c', b'd', b'a')"},
	{"ways of opening", `
f = os.open("/tmp/ways", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK)
os.set_inheritable(f, True)`, `
flags = fcntl.fcntl(f, fcntl.F_GETFL)
return flags & 3, bool(flags & os.O_APPEND), bool(flags & os.O_NONBLOCK), os.get_inheritable(f)`, "(1, True, True, True)"},
	{"lock on a file (flock)", `
f = os.open("/tmp/flock", os.O_RDWR | os.O_CREAT); fcntl.flock(f, fcntl.LOCK_EX)`, `
g = os.open("/tmp/flock", os.O_RDWR)
try: fcntl.flock(g, fcntl.LOCK_SH | fcntl.LOCK_NB)
except BlockingIOError: return "held"`, "held"},
	{"lock on a range (fcntl)", `
f = os.open("/tmp/lock", os.O_RDWR | os.O_CREAT); g = os.open("/tmp/lock", os.O_RDONLY)
fcntl.lockf(f, fcntl.LOCK_EX, 10, 100)`, `
if os.fork() == 0:
    f = os.open("/tmp/lock", os.O_RDWR)
    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
    try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 105)
    except OSError: os._exit(7)
    os._exit(8)
return os.waitstatus_to_exitcode(os.wait()[1])`, "7"},
	{"device", `f = os.open("/dev/zero", os.O_RDWR)`, `return os.read(f, 2)`, `b'\x00\x00'`},
	{"file of the kernel", `f = os.open("/proc/uptime", os.O_RDONLY)`, `return float(os.pread(f, 99, 0).split()[0]) > 0`, "True"},
	{"working directory", `os.makedirs("/tmp/wd"); os.chdir("/tmp/wd")`, `return os.getcwd()`, "/tmp/wd"},
	{"mask of files", `os.umask(0o027)`, `return oct(os.umask(0o027))`, "0o27"},
	{"environment", `os.environ["KEPT"] = "yes"`, `return os.environ["KEPT"]`, "yes"},
	{"name", `libc.prctl(15, b"renamed")`, `return open("/proc/self/comm").read().strip()`, "renamed"},
	{"resource limits", `
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 400))`, `return resource.getrlimit(resource.RLIMIT_NOFILE)`, "(300, 400)"},
	{"alternate stack for signals", `
stack = ctypes.create_string_buffer(65536)
call(libc.sigaltstack(struct.pack("QiiQ", ctypes.addressof(stack), 0, 0, 65536), None))`, `
now = ctypes.create_string_buffer(24)
call(libc.sigaltstack(None, now))
return struct.unpack("QiiQ", now.raw)[0] == ctypes.addressof(stack)`, "True"},
	{"blocked signals", `signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])`, `
return [s.name for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])]`, "['SIGUSR2']"},
	{"handled and ignored signals", `
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1)); signal.signal(signal.SIGUSR2, signal.SIG_IGN)`, `
got.clear(); os.kill(os.getpid(), signal.SIGUSR1); os.kill(os.getpid(), signal.SIGUSR2)
return got`, "[1]"},
	{"interval timer", `signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 100000, 60)`, `
left, every = signal.getitimer(signal.ITIMER_REAL)
return 99000 < left <= 100000, every`, "(True, 60.0)"},
	{"interval timer that fires", `
fired = []
signal.signal(signal.SIGALRM, lambda *_: fired.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)`, `
import time
before, end = len(fired), time.monotonic() + 60
while len(fired) == before and time.monotonic() < end: time.sleep(0.01)
return len(fired) > before`, "True"},
	{"pending signals", `
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, 40])
os.kill(os.getpid(), signal.SIGUSR1)
libc.sigqueue(os.getpid(), 40, ctypes.c_void_p(7)); libc.sigqueue(os.getpid(), 40, ctypes.c_void_p(8))
signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)`, `
got = []
while True:
    s = signal.sigtimedwait([signal.SIGUSR1, 40], 0)
    if s is None: return got
    got.append((s.si_signo, s.si_code, s.si_pid == os.getpid()))`, "[(10, 0, True), (10, 0, True), (40, -1, True), (40, -1, True)]"},
	{"pending signal of a thread", `
got, go = [], threading.Event()
def work():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
    ready.set(); go.wait()
    got.append(signal.sigtimedwait([signal.SIGUSR1], 0) is not None)
ready = threading.Event(); t = threading.Thread(target=work); t.start(); ready.wait()`, `
go.set(); t.join()
return got`, "[True]"},
	{"timer (timer_create)", `
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
def create(value):
    i = ctypes.c_int(); call(libc.syscall(222, 1, struct.pack("Qii48x", value, 40, 0), ctypes.byref(i))); return i.value
ids = [create(7), create(8), create(9)]
call(libc.syscall(226, ids[1]))
call(libc.syscall(223, ids[0], 0, struct.pack("qqqq", 0, 0, 100000, 0), None))
call(libc.syscall(223, ids[2], 0, struct.pack("qqqq", 0, 0, 0, 50000000), None))`, `
fired = signal.sigtimedwait([40], 60)
now = ctypes.create_string_buffer(32)
call(libc.syscall(224, ids[0], now))
return ids, fired.si_signo, fired.si_code, 99000 < struct.unpack("qqqq", now.raw)[2] <= 100000, libc.syscall(226, ids[1])`, "([0, 1, 2], 40, -2, True, -1)"},
	{"niceness, policy and processors", `
nice = os.nice(5); os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)); cpu = sorted(os.sched_getaffinity(0))[-1]; os.sched_setaffinity(0, [cpu])`, `
return os.nice(0) == nice, os.sched_getscheduler(0) == os.SCHED_BATCH, os.sched_getaffinity(0) == {cpu}`, "(True, True, True)"},
	{"length of turns that nobody set", turn + `
had = turn()`, `return turn() == had or (turn(), had)`, "True"},
	{"length of turns in idle times", turn + `
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)); had = turn()`, `
return os.sched_getscheduler(0) == os.SCHED_IDLE, turn() == had or (turn(), had)`, "(True, True)"},
	{"length of turns", turn + `
turn(3000000); had = turn()`, `return turn() == had or (turn(), had)`, "True"},
	{"not to be dumped, adopting orphans", `libc.prctl(4, 0); libc.prctl(36, 1)`, `
now = ctypes.c_int(); libc.prctl(37, ctypes.byref(now))
return libc.prctl(3), now.value`, "(0, 1)"},
	{"few descriptors allowed", `
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6))`, `return resource.getrlimit(resource.RLIMIT_NOFILE)`, "(6, 6)"},
	{"high descriptor", `
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
r, w = os.pipe(); os.dup2(w, 3000); os.close(w)`, `
os.write(3000, b"x")
return os.read(r, 1)`, "b'x'"},
	{"robust mutex", `
size = 40; m = ctypes.create_string_buffer(size); a = ctypes.create_string_buffer(8)
pthread = ctypes.CDLL("libpthread.so.0")
pthread.pthread_mutexattr_init(a); pthread.pthread_mutexattr_setrobust(a, 1); pthread.pthread_mutex_init(m, a)
held, end = threading.Event(), threading.Event()
def work(): pthread.pthread_mutex_lock(m); held.set(); end.wait()
t = threading.Thread(target=work); t.start(); held.wait()`, `
end.set(); t.join()
return pthread.pthread_mutex_lock(m)`, "130"},
	{"files of the kernel show no more than before", `f = os.open("/proc/kallsyms", os.O_RDONLY)`, `
return os.pread(f, 16, 0) in (b"", b"0" * 16)`, "True"},
	{"huge pages that the kernel chose", `
a = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); a.madvise(14); a[:] = b"h" * (8 << 20)`, `
return a[:] == b"h" * (8 << 20)`, "True"},
	{"no io_uring", `p = ctypes.create_string_buffer(256)`, `
return libc.syscall(425, 8, p), ctypes.get_errno()`, "(-1, 1)"},
	{"no landlock of its own", ``, `return libc.syscall(444, None, 0, 1), ctypes.get_errno()`, "(-1, 38)"},
	{"no guard pages, no dispatch, no MDWE", `
m = mmap.mmap(-1, 4096); at = ctypes.addressof(ctypes.c_char.from_buffer(m))`, `
refused = [libc.madvise(ctypes.c_void_p(at), 4096, 102), libc.prctl(59, 1, 0, 0, 0), libc.prctl(65, 1, 0, 0, 0)]
return refused, ctypes.get_errno()`, "([-1, -1, -1], 22)"},
	{"memory shared with a child of its own", `
a = mmap.mmap(-1, 4096); r, w = os.pipe(); back, done = os.pipe()
if os.fork() == 0:
    while os.read(r, 1): a[0] += 1; os.write(done, b"x")`, `
os.write(w, b"x"); os.read(back, 1)
return a[0]`, "1"},
	{"pool of processes", `
import multiprocessing
pool = multiprocessing.Pool(2); pool.map(abs, [-1])`, `return pool.map(abs, [-1, -2, -3])`, "[1, 2, 3]"},
	{"threads", `
todo, done = __import__("queue").Queue(), __import__("queue").Queue()
def work():
    while True: done.put((todo.get(), threading.get_native_id()))
ids = [t.native_id for t in [threading.Thread(target=work, daemon=True) for _ in range(5)] if not t.start()]`, `
for i in range(20): todo.put(i)
results = [done.get(timeout=60) for _ in range(20)]
return sorted(n for n, _ in results) == list(range(20)), {t for _, t in results} <= set(ids)`, "(True, True)"},
}
