package checkpoint

import (
	"encoding/binary"
	"fmt"
	"os"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Batch is what one process of a new cell makes for all of its processes: what
// must be made there, in its own net namespace, in its account and with its
// rights, and not by this program.
type Batch struct {
	contents []*Content
	paths    []opening
	sockets  []*SocketState
	copies   []transfer
}

type opening struct {
	path  string
	flags int
}

// AddContent has a file or memory made that no path leads to.
func (b *Batch) AddContent(c *Content) { b.contents = append(b.contents, c) }

// AddPath has a path opened. It must be one that opens without waiting.
func (b *Batch) AddPath(path string, flags int) {
	b.paths = append(b.paths, opening{path, flags})
}

// AddSocket has a socket made. What it is connected to must be added too.
func (b *Batch) AddSocket(s *SocketState) { b.sockets = append(b.sockets, s) }

// Empty says that there is nothing to make.
func (b *Batch) Empty() bool { return len(b.contents)+len(b.paths)+len(b.sockets) == 0 }

// Inputs are the files that the process must have, at descriptors that follow
// each other.
func (b *Batch) Inputs() (files []*os.File) {
	for _, c := range b.contents {
		files = append(files, c.file)
	}
	return files
}

// Size is how many steps and bytes of a script Write takes at most.
func (b *Batch) Size() (steps, bytes int) {
	const perSocket = 64
	for _, c := range b.contents {
		steps += c.steps()
		bytes += c.bytes()
	}
	for _, p := range b.paths {
		steps++
		bytes += len(p.path) + 16
	}
	for _, s := range b.sockets {
		steps += perSocket + len(s.queue)
		bytes += 2048
		for _, m := range s.queue {
			bytes += len(m) + 8
		}
	}
	return steps, bytes
}

// Made says which descriptors were made, counted from the first.
type Made struct {
	Contents map[*Content]int
	Paths    []int
	Sockets  map[uint64]int // by inode
	Count    int
}

// Write appends the steps, for inputs at those descriptors; the first that is
// made is the first after them.
func (b *Batch) Write(s *spawn.Script, inputs int) (*Made, error) {
	w := &batchWriter{Script: s, batch: b, first: inputs + len(b.contents),
		made: &Made{Contents: map[*Content]int{}, Sockets: map[uint64]int{}}}
	for i, c := range b.contents {
		w.made.Contents[c] = w.next()
		b.copies = append(b.copies, c.recreate(s, uintptr(inputs+i), w.at(w.made.Contents[c]))...)
	}
	for _, p := range b.paths {
		s.Call(unix.SYS_OPENAT, here, s.String(p.path), uintptr(p.flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK), 0)
		w.made.Paths = append(w.made.Paths, w.next())
	}
	return w.made, w.sockets()
}

// Check says whether everything was copied, once the steps have been made.
func (b *Batch) Check() error {
	for _, t := range b.copies {
		if got := t.step.Result(); got != int64(t.bytes) {
			return fmt.Errorf("%w: %d of %d bytes", errShort, got, t.bytes)
		}
	}
	return nil
}

type batchWriter struct {
	*spawn.Script
	batch *Batch
	made  *Made
	first int
}

// next counts a descriptor that a step makes.
func (w *batchWriter) next() int {
	w.made.Count++
	return w.made.Count - 1
}

func (w *batchWriter) at(made int) uintptr { return uintptr(w.first + made) }

// sockets appends the making of all: first those that others connect to.
func (w *batchWriter) sockets() error {
	byInode := map[uint64]*SocketState{}
	for _, s := range w.batch.sockets {
		byInode[s.Inode] = s
	}
	for _, s := range w.batch.sockets {
		if s.Peer == 0 && !s.Orphan {
			w.standalone(s)
		}
	}
	for _, s := range w.batch.sockets {
		if _, done := w.made.Sockets[s.Inode]; done {
			continue
		}
		if err := w.connected(s, byInode[s.Peer]); err != nil {
			return err
		}
	}
	for _, s := range w.batch.sockets {
		if s.shut != 0 && !s.Orphan && s.Peer != 0 {
			w.Call(unix.SYS_SHUTDOWN, w.of(s), uintptr(s.shut-1))
		}
	}
	return nil
}

func (w *batchWriter) of(s *SocketState) uintptr { return w.at(w.made.Sockets[s.Inode]) }

// standalone makes a socket that is not connected to another of the cell.
func (w *batchWriter) standalone(s *SocketState) {
	w.Call(unix.SYS_SOCKET, uintptr(s.Family), uintptr(s.Type|unix.SOCK_CLOEXEC), uintptr(s.Protocol))
	w.made.Sockets[s.Inode] = w.next()
	w.options(s)
	if s.Bound() {
		if path := s.Path(); path != "" {
			w.Call(unix.SYS_UNLINKAT, here, w.String(path), 0).MayFail()
		}
		address, size := w.address(s.local)
		w.Call(unix.SYS_BIND, w.of(s), address, size)
		if path := s.Path(); path != "" && s.mode != 0 {
			w.Call(unix.SYS_FCHMODAT, here, w.String(path), uintptr(s.mode))
		}
	}
	switch {
	case s.Listens:
		w.Call(unix.SYS_LISTEN, w.of(s), uintptr(s.backlog))
	case s.Family != unix.AF_UNIX && len(s.remote) > 0:
		address, size := w.address(s.remote)
		w.Call(unix.SYS_CONNECT, w.of(s), address, size)
	}
}

// Bound says that the socket has an address of its own.
func (s *SocketState) Bound() bool {
	if s.Family == unix.AF_UNIX {
		return named(s.local)
	}
	return len(s.local) > 4 && binary.BigEndian.Uint16(s.local[2:]) != 0 // its port
}

func (w *batchWriter) address(raw []byte) (at, size uintptr) {
	address, mem := w.Bytes(len(raw))
	copy(mem, raw)
	return address, uintptr(len(raw))
}

func (w *batchWriter) options(s *SocketState) {
	for _, o := range s.options {
		value, mem := w.Bytes(len(o.value))
		copy(mem, o.value)
		w.Call(unix.SYS_SETSOCKOPT, w.of(s), uintptr(o.level), uintptr(o.name), value, uintptr(len(o.value)))
	}
}

// connected makes two sockets that are connected to each other, with what each
// has not read yet. peer is nil if that one is closed.
func (w *batchWriter) connected(s, peer *SocketState) error {
	if peer != nil && peer.Peer != s.Inode {
		return w.toNamed(s, peer)
	}
	if peer == nil {
		peer = &SocketState{Inode: ^s.Inode, Family: s.Family, Type: s.Type}
	}
	server, client := s, peer
	if named(peer.local) {
		server, client = peer, s
	}
	switch {
	case named(client.local):
		return fmt.Errorf("checkpoint: both ends of a connection have names")
	case !named(server.local):
		pair, _ := w.Bytes(8)
		w.Call(unix.SYS_SOCKETPAIR, uintptr(s.Family), uintptr(s.Type|unix.SOCK_CLOEXEC), 0, pair)
		w.made.Sockets[s.Inode], w.made.Sockets[peer.Inode] = w.next(), w.next()
	default:
		if err := w.accept(server, client); err != nil {
			return err
		}
	}
	w.options(s)
	w.options(peer)
	w.fill(s, peer)
	w.fill(peer, s)
	return nil
}

// accept connects a socket to one that listens under the server's name.
func (w *batchWriter) accept(server, client *SocketState) error {
	for _, listener := range w.batch.sockets {
		if !listener.Listens || string(listener.local) != string(server.local) {
			continue
		}
		w.Call(unix.SYS_SOCKET, unix.AF_UNIX, uintptr(client.Type|unix.SOCK_CLOEXEC), 0)
		w.made.Sockets[client.Inode] = w.next()
		address, size := w.address(server.local)
		w.Call(unix.SYS_CONNECT, w.of(client), address, size)
		w.Call(unix.SYS_ACCEPT4, w.of(listener), 0, 0, unix.SOCK_CLOEXEC)
		w.made.Sockets[server.Inode] = w.next()
		return nil
	}
	return fmt.Errorf("checkpoint: nobody listens any more under the name of a connection")
}

// toNamed makes a socket for datagrams that another does not answer.
func (w *batchWriter) toNamed(s, peer *SocketState) error {
	if s.Type != unix.SOCK_DGRAM || !named(peer.local) || len(s.queue) > 0 {
		return fmt.Errorf("checkpoint: a socket is connected to one that has no name")
	}
	single := *s
	single.Peer = 0
	w.standalone(&single)
	address, size := w.address(peer.local)
	w.Call(unix.SYS_CONNECT, w.of(s), address, size)
	return nil
}

// fill sends what a socket has not read yet by its peer.
func (w *batchWriter) fill(s, by *SocketState) {
	for _, message := range s.queue {
		data, mem := w.Bytes(len(message))
		copy(mem, message)
		step := w.Call(unix.SYS_SENDTO, w.of(by), data, uintptr(len(message)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		w.batch.copies = append(w.batch.copies, transfer{step, uint64(len(message))})
	}
}
