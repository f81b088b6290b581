package checkpoint

import (
	"math"
	"slices"
	"strings"

	"aether/internal/host/seccomp"

	"golang.org/x/sys/unix"
)

var kinds = []Kind{File, Deleted, Virtual, Pipe, Socket, Event, Poll, Timer, Signals, Memory}

// timerClocks are those that everybody may have timers of: others wake the machine, which
// this program could have them do.
var timerClocks = []int{unix.CLOCK_REALTIME, unix.CLOCK_MONOTONIC, unix.CLOCK_BOOTTIME}

// maxPipes bounds the sizes of all pipes together: this program makes them.
const maxPipes = 16 << 30

func (dec *decoder) descriptors(docs []descriptorImage) (list []Descriptor, err error) {
	if len(docs) > maxDescriptors {
		return nil, damaged("%d descriptors", len(docs))
	}
	last := -1
	for i := range docs {
		d, err := dec.descriptor(&docs[i])
		if err != nil {
			return nil, err
		}
		if d.Number <= last || d.Number > math.MaxInt32 {
			return nil, damaged("descriptor %d after %d", d.Number, last)
		}
		last = d.Number
		list = append(list, d)
	}
	return list, nil
}

func (dec *decoder) descriptor(doc *descriptorImage) (d Descriptor, err error) {
	d = doc.Descriptor
	d.Target = string(doc.Target)
	if d.Content, err = dec.content(doc.Content); err != nil {
		return d, err
	}
	if err := d.Socket.check(); err != nil {
		return d, err
	}
	path := d.Kind == File || d.Kind == Virtual
	ok := slices.Contains(kinds, d.Kind) && plainName(d.Target) && (!path || strings.HasPrefix(d.Target, "/")) &&
		(d.Kind == Deleted || d.Kind == Memory) == (d.Content != nil) && (d.Kind == Socket) == (d.Socket != nil) &&
		(d.Socket == nil || d.Socket.Inode == d.Inode) && d.Position >= 0 &&
		d.Capacity >= 0 && d.Capacity <= maxPipe && len(d.Unread) <= d.Capacity &&
		len(d.Watches) <= maxWatches && len(d.Locks) <= maxLocks &&
		(d.Kind != Timer || slices.Contains(timerClocks, d.Clock))
	if dec.capacity += d.Capacity; !ok || dec.capacity > maxPipes {
		return d, damaged("descriptor %d, a %.20q", d.Number, d.Kind)
	}
	return d, nil
}

func (dec *decoder) content(place *int) (*Content, error) {
	if place == nil {
		return nil, nil
	}
	if *place < 0 || *place >= len(dec.contents) {
		return nil, damaged("the content %d", *place)
	}
	return dec.contents[*place], nil
}

func (dec *decoder) mappings(docs []mappingImage, private []VMA) (list []SharedMapping, err error) {
	if len(docs) > maxVMAs {
		return nil, damaged("%d mappings", len(docs))
	}
	taken := cursor{placesOf(private)}
	last := uint64(minAddress)
	for i := range docs {
		m := docs[i].SharedMapping
		m.Path = string(docs[i].Path)
		if m.Content, err = dec.content(docs[i].Content); err != nil {
			return nil, err
		}
		const known = unix.PROT_READ | unix.PROT_WRITE | unix.PROT_EXEC
		if (m.Start|m.Size|m.Offset)%pageSize != 0 || m.Size == 0 || m.Start > userEnd || m.Size > userEnd-m.Start || m.Protection&^known != 0 ||
			len(m.Advice) > 16 || m.Content == nil && (!plainName(m.Path) || !strings.HasPrefix(m.Path, "/")) {
			return nil, damaged("shared memory at %x", m.Start)
		}
		whole := run{m.Start, m.Start + m.Size}
		if m.Start < last || len(taken.within(whole)) > 0 {
			return nil, damaged("shared memory at %x, where there is something else", m.Start)
		}
		last = whole.End
		list = append(list, m)
	}
	return list, nil
}

// placesOf are the addresses of mappings, with those of the kernel.
func placesOf(areas []VMA) (list []run) {
	for _, a := range areas {
		list = append(list, run{a.Start, a.End})
	}
	return list
}

const (
	maxAddress = 128 // sockaddr_storage
	maxOptions = 64
	maxOption  = 256
)

func (s *SocketState) check() error {
	if s == nil {
		return nil
	}
	s.Mode &= 0o777
	family := s.Family != unix.AF_NETLINK && slices.ContainsFunc(seccomp.Sockets, func(f seccomp.Family) bool {
		return s.Family == int(f.Number) && slices.Contains(f.Protocols, uint32(s.Protocol))
	})
	kind := slices.Contains([]int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET}, s.Type)
	total := 0
	for _, message := range s.Queue {
		total += len(message)
		if len(message) == 0 {
			kind = false
		}
	}
	stream := s.Protocol == unix.IPPROTO_TCP && s.Type == unix.SOCK_STREAM && s.Family != unix.AF_UNIX
	if s.Reset && (!stream || s.Listens || s.Orphan || s.Peer != 0 || total > 0) {
		return damaged("a socket whose connection is over")
	}
	if !family || !kind || len(s.Local) > maxAddress || len(s.Remote) > maxAddress || s.Shut < 0 || s.Shut > 3 ||
		total > maxQueue || len(s.Options) > maxOptions {
		return damaged("a socket of the family %d", s.Family)
	}
	for _, o := range s.Options {
		if len(o.Value) == 0 || len(o.Value) > maxOption {
			return damaged("a socket with an option of %d bytes", len(o.Value))
		}
	}
	return nil
}
