package netpool

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"aether/internal/host/guestinit"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// What a program without rights can do to its net namespace it does by sockets, which
// are of four families here: unix, IPv4, IPv6 and route netlink, the latter for asking
// only. So a namespace is as new if
//   - no socket of any family lives there, on its way to another process or dying,
//   - nothing was sent or failed to be: the counters of all protocols are those of a new
//     one, of which the loopback's count every packet,
//   - and none of the two things is left that sockets leave without sending: the label
//     of a flow, and the key of fast opens.
//
// A multicast group is joined and left by sending, a moment later: see settle. No file of
// /proc/sys/net is asked for while sandboxes are made or live: the kernel looks for its
// name among those that were asked for in all other namespaces.

// proof are the files that tell all counters, and what else is left.
var proof = []struct {
	name string
	ipv6 bool // it is missing where the kernel does without
}{
	{"dev", false}, {"snmp", false}, {"snmp6", true}, {"netstat", false}, {"ip6_flowlabel", true},
}

// procFS is the directory /proc, for threads that have none where they stand.
type procFS struct{ dir *os.File }

func openProcFS() (p procFS, err error) {
	fd, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return p, &os.PathError{Op: "open", Path: "/proc", Err: err}
	}
	return procFS{os.NewFile(uintptr(spawn.Aside(fd)), "/proc")}, nil
}

// read appends what a file below a directory says to buf. It is called some thousand times
// a second, so it goes without what an os.File is good for.
func read(buf []byte, dir int, name string) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return buf, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	for {
		// All of most files at once, and not much more: for a setting the kernel clears
		// as much memory as it is asked for.
		buf = slices.Grow(buf, 4096)
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return buf, &os.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return buf, nil
		default:
			buf = buf[:len(buf)+n]
		}
	}
}

// enterNew moves the thread into a new namespace and gets that ready for a sandbox.
func enterNew() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	return guestinit.LoopbackUp()
}

// look appends what the thread's namespace shows to buf.
func (p procFS) look(buf []byte) ([]byte, error) {
	// The way to a namespace's files is looked up anew each time, so it is gone once.
	net, err := unix.Openat(int(p.dir.Fd()), "thread-self/net", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return buf, &os.PathError{Op: "open", Path: "/proc/thread-self/net", Err: err}
	}
	defer unix.Close(net)
	start := len(buf)
	if buf, err = read(buf, net, "sockstat"); err != nil {
		return buf, err
	}
	// The lines after the first count those of the whole host too.
	first, _, _ := bytes.Cut(buf[start:], []byte("\n"))
	buf = buf[:start+len(first)]
	for _, f := range proof {
		buf, err = read(buf, net, f.name)
		if err != nil && (!f.ipv6 || !errors.Is(err, fs.ErrNotExist)) {
			return buf, err
		}
	}
	return read(buf, int(p.dir.Fd()), "sys/net/ipv4/tcp_fastopen_key")
}

// prover looks into namespaces.
type prover struct {
	seen   []byte // in the one that it looks into
	fresh  []byte // in a new one
	asOf   time.Time
	broken bool // it cannot be relied on any more
}

// freshFor is how long a new namespace is taken to show what another did: it begins with
// settings of the host's own, which somebody may change.
const freshFor = time.Second

// prove gives those that are as new, and lets the others go.
func (p *Pool) prove(list []kept) (clean []kept) {
	for _, k := range list {
		if !p.clean(k.file) {
			k.file.Close()
			continue
		}
		clean = append(clean, kept{k.file, time.Now()})
	}
	return clean
}

// clean says whether a namespace is as new. After an error none ever is.
func (p *Pool) clean(file *os.File) (clean bool) {
	if p.prover.broken {
		return false
	}
	err := p.visit(func() (err, away error) {
		clean, err = p.compare(file)
		return err, p.leave()
	})
	if err != nil {
		p.prover.broken = true
		p.log.Warn("netpool: net namespaces cannot be looked into, and are all made anew", "err", err)
	}
	return clean && err == nil
}

// compare moves the thread.
func (p *Pool) compare(file *os.File) (same bool, err error) {
	if err := enter(file); err != nil {
		return false, err
	}
	known := &p.prover
	known.seen, err = p.proc.look(known.seen[:0])
	if err != nil || bytes.Equal(known.seen, known.fresh) || time.Since(known.asOf) < freshFor {
		return bytes.Equal(known.seen, known.fresh), err
	}
	if err := enterNew(); err != nil {
		return false, err
	}
	known.fresh, err = p.proc.look(known.fresh[:0])
	known.asOf = time.Now()
	return bytes.Equal(known.seen, known.fresh), err
}
