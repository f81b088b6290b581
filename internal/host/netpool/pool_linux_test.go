package netpool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

func openPool(t *testing.T) *Pool {
	t.Helper()
	p := newPool(t)
	t.Cleanup(p.Close)
	return p
}

func newPool(t *testing.T) *Pool {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may make net namespaces of this program's")
	}
	dir := t.TempDir()
	var threads [2]*spawn.Thread
	for i := range threads {
		thread, err := spawn.NewThread(func() error { // where there is no /proc, as for threads on the stage of an image
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return err
			}
			return unix.Chroot(dir)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(thread.Close)
		threads[i] = thread
	}
	var turn atomic.Uint32
	visit := func(fn func() (err, away error)) error {
		return threads[turn.Add(1)%2].Do(func() error { err, away := fn(); return errors.Join(err, away) })
	}
	p, err := Open(visit, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// use runs fn in a namespace of the pool and gives it with its number.
func (p *Pool) use(t *testing.T, fn func() error) (file *os.File, number uint64) {
	t.Helper()
	file, err := p.Take()
	if err != nil {
		t.Fatal(err)
	}
	err = p.visit(func() (err, away error) {
		if err = enter(file); err == nil {
			err = fn()
		}
		return err, p.leave()
	})
	if err != nil {
		t.Fatal(err)
	}
	return file, inode(t, file)
}

// retire is Retire of what was not held.
func (p *Pool) retire(file *os.File) {
	p.mu.Lock()
	p.held++
	p.mu.Unlock()
	p.Retire(file)
}

func inode(t *testing.T, file *os.File) uint64 {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	return stat.Ino
}

// looked waits until all that was retired was looked into, and says how many are ready.
func (p *Pool) looked(t *testing.T) int {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(settle / 10) {
		p.mu.Lock()
		lying, ready := len(p.lying), len(p.ready)
		p.mu.Unlock()
		if lying == 0 {
			return ready
		}
		if time.Now().After(end) {
			t.Fatalf("%d are still lying", lying)
		}
	}
}

// TestPrepared: the first sandbox gets the namespace that was made ahead, the next one a new
// one, and a pool that is closed before leaves none behind.
func TestPrepared(t *testing.T) {
	p := openPool(t)
	p.Prepare()
	p.ahead.Wait()
	if len(p.ready) != 1 {
		t.Fatalf("%d are ready", len(p.ready))
	}
	prepared := inode(t, p.ready[0].file)
	up := func() error {
		list, err := net.InterfaceAddrs()
		if err == nil && len(list) == 0 {
			err = errors.New("the loopback is not up")
		}
		return err
	}
	for i, same := range []bool{true, false} {
		file, number := p.use(t, up)
		file.Close()
		if (number == prepared) != same {
			t.Errorf("sandbox %d: namespace %d, and %d was made ahead", i, number, prepared)
		}
	}
	p.Prepare() // too late
	p.ahead.Wait()
	if len(p.ready) != 0 {
		t.Errorf("%d are ready that nobody will want", len(p.ready))
	}
}

// TestPreparedWhileWanted: whoever comes while a namespace is made ahead waits for that one,
// or is first, and then makes the only one.
func TestPreparedWhileWanted(t *testing.T) {
	for range 20 {
		p := newPool(t)
		p.Prepare()
		file, number := p.use(t, func() error { return nil })
		p.ahead.Wait()
		if left := len(p.ready); left != 0 {
			t.Errorf("%d are ready beside %d, which was taken", left, number)
		}
		p.Close()
		file.Close()
	}
}

// TestKeptIsAsNew: what a sandbox has done by sockets decides whether another gets its net
// namespace. Nothing that could be seen there is passed on.
func TestKeptIsAsNew(t *testing.T) {
	p := openPool(t)
	for _, test := range []struct {
		name string
		do   func() error
		kept bool
	}{
		{"nothing", func() error { return nil }, true},
		{"unix sockets", talkByUnix, true},
		{"a port that nobody came to", func() error { return bound(unix.SOCK_DGRAM, nil) }, true},
		{"a server that nobody came to", func() error { return bound(unix.SOCK_STREAM, func(fd int) error { return unix.Listen(fd, 1) }) }, true},
		{"what addresses there are", func() error { _, err := net.InterfaceAddrs(); return err }, true},
		{"a datagram to itself", datagram, false},
		{"a connection to itself", connection, false},
		{"a connection that was refused", func() error { return connect("127.0.0.1:9", unix.ECONNREFUSED) }, false},
		{"a connection to nowhere", func() error { return connect("192.0.2.1:9", unix.ENETUNREACH) }, false},
		{"a connection to nowhere by IPv6", func() error { return connect("[2001:db8::1]:9", unix.ENETUNREACH) }, false},
		{"a multicast group", func() error { return bound(unix.SOCK_DGRAM, joinGroup) }, false},
		{"a multicast group of IPv6", joinGroup6, false},
		{"a key of fast opens", func() error { return bound(unix.SOCK_STREAM, fastOpens) }, false},
		{"the label of a flow", labelFlow, false},
		{"a socket that lives", func() error { return outlived(t, unix.AF_INET) }, false},
		{"a unix socket that lives", func() error { return outlived(t, unix.AF_UNIX) }, false},
		{"a unix socket on its way to nobody", func() error { return inFlight(t) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			file, number := p.use(t, test.do)
			p.retire(file)
			if ready := p.looked(t); ready == 1 != test.kept {
				t.Errorf("%d are ready, want kept: %v", ready, test.kept)
			}
			next, nextNumber := p.use(t, func() error { return nil })
			defer next.Close()
			if test.kept != (number == nextNumber) {
				t.Errorf("namespace %d, and then %d, want the same: %v", number, nextNumber, test.kept)
			}
		})
	}
}

func talkByUnix() error {
	l, err := net.Listen("unix", "@aether-netpool")
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := net.Dial("unix", "@aether-netpool")
	if err != nil {
		return err
	}
	_, err = c.Write([]byte("here"))
	c.Close()
	return err
}

// bound has fn do something with a socket of IPv4 that has a port.
func bound(kind int, fn func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: 4000, Addr: [4]byte{127, 0, 0, 1}}); err != nil || fn == nil {
		return err
	}
	return fn(fd)
}

func datagram() error {
	return bound(unix.SOCK_DGRAM, func(fd int) error {
		return unix.Sendto(fd, []byte("here"), 0, &unix.SockaddrInet4{Port: 4000, Addr: [4]byte{127, 0, 0, 1}})
	})
}

func connection() error {
	return bound(unix.SOCK_STREAM, func(fd int) error {
		if err := unix.Listen(fd, 1); err != nil {
			return err
		}
		return connect("127.0.0.1:4000", nil)
	})
}

// connect connects on this thread, which net.Dial may leave.
func connect(to string, want error) error {
	address, err := net.ResolveTCPAddr("tcp", to)
	if err != nil {
		return err
	}
	family, at := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: address.Port, Addr: [4]byte(address.IP.To16()[12:])})
	if address.IP.To4() == nil {
		family, at = unix.AF_INET6, &unix.SockaddrInet6{Port: address.Port, Addr: [16]byte(address.IP)}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, at); err != want {
		return fmt.Errorf("connect to %s: %v", to, err)
	}
	return nil
}

func joinGroup(fd int) error {
	return unix.SetsockoptIPMreq(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
		&unix.IPMreq{Multiaddr: [4]byte{239, 1, 2, 3}, Interface: [4]byte{127, 0, 0, 1}})
}

func fastOpens(fd int) error {
	if err := unix.Listen(fd, 1); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 1)
}

func socket6(fn func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return fn(fd)
}

func joinGroup6() error {
	return socket6(func(fd int) error {
		return unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
			&unix.IPv6Mreq{Multiaddr: [16]byte{0: 0xff, 1: 5, 15: 9}, Interface: 1})
	})
}

// labelFlow leaves a label that outlives its socket by some seconds.
func labelFlow() error {
	const manager, request, create = 32, 32, 1
	label := make([]byte, request)
	label[15] = 1                                     // to ::1
	binary.BigEndian.PutUint32(label[16:], 0x12345)   // the label
	label[21] = 1                                     // one owner
	binary.NativeEndian.PutUint16(label[22:], create) // flags
	return socket6(func(fd int) error {
		return unix.SetsockoptString(fd, unix.IPPROTO_IPV6, manager, string(label))
	})
}

func outlived(t *testing.T, family int) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		t.Cleanup(func() { unix.Close(fd) })
	}
	return err
}

// inFlight sends one of a pair to the other, and closes both but for a third.
func inFlight(t *testing.T) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	t.Cleanup(func() { unix.Close(pair[1]) })
	defer unix.Close(pair[0])
	sent, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(sent)
	return unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(sent), nil, 0)
}

// TestCloseLetsGo: a pool that is closed keeps no namespace, wherever it was with it.
func TestCloseLetsGo(t *testing.T) {
	for _, wait := range []bool{false, true} {
		p := newPool(t)
		file, _ := p.use(t, func() error { return nil })
		p.retire(file)
		if wait && p.looked(t) != 1 {
			t.Fatal("it is not kept")
		}
		p.Close()
		if _, err := file.Stat(); err == nil {
			t.Errorf("a pool that was closed still holds a namespace (looked into: %v)", wait)
		}
	}
}

// TestUnusedIsShared: those who use no namespace are all in one, which is nobody's own and
// in which nothing can be sent.
func TestUnusedIsShared(t *testing.T) {
	p := openPool(t)
	var seen []uint64
	for range 2 {
		err := p.visit(func() (err, away error) {
			return p.Do(func() error {
				file, err := p.openThis()
				if err != nil {
					return err
				}
				defer file.Close()
				seen = append(seen, inode(t, file))
				return connect("127.0.0.1:9", unix.ENETUNREACH)
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	file, own := p.use(t, func() error { return nil })
	defer file.Close()
	if seen[0] != seen[1] || own == seen[0] || inode(t, p.home) == seen[0] {
		t.Errorf("namespaces %v are shared, %d is a sandbox's, %d this program's", seen, own, inode(t, p.home))
	}
}

// openOwn opens the namespace of this program.
func openOwn() (int, error) { return unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0) }

// TestMostAreLetGo: a crowd that ends does not leave all of its namespaces behind, and needs
// no descriptor for each while it ends.
func TestMostAreLetGo(t *testing.T) {
	p := openPool(t)
	var held []*os.File
	for range maxKept {
		file, err := p.Hold(openOwn)
		if err != nil || file == nil {
			t.Fatal("after ", len(held), ": ", err)
		}
		held = append(held, file)
	}
	if file, err := p.Hold(openOwn); err != nil || file != nil {
		t.Errorf("%d are held: %v", maxKept+1, err)
	}
	p.Release(held[0])
	file, err := p.Hold(openOwn)
	if err != nil || file == nil {
		t.Fatal("after one was released: ", err)
	}
	for _, file := range append(held[1:], file) {
		p.Release(file)
	}
}

// TestNobodyComes: what is not wanted goes.
func TestNobodyComes(t *testing.T) {
	p := openPool(t)
	file, _ := p.use(t, func() error { return nil })
	p.mu.Lock()
	p.ready = append(p.ready, kept{file, time.Now().Add(-keepFor)})
	p.tendIn(0)
	p.mu.Unlock()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := file.Stat(); err != nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("it is kept for ever")
		}
	}
}
