package netdev

import (
	"errors"
	"io"
	"os"
	"sync"
)

// maxWaiting bounds the bytes of packets that wait for a stream to take them. What comes
// then is dropped, as networks do.
const maxWaiting = 2 << 20

// Stream is this program's end of a device that is elsewhere, in a machine: its packets
// come and go over a stream of bytes, which can be exchanged for another while the device
// stays what it is.
type Stream struct {
	// unplugged is told why a stream has ended that nobody has exchanged, before the other
	// end can know. It must not wait.
	unplugged func(error)

	mu      sync.Mutex
	changed sync.Cond // of all below
	file    io.ReadWriteCloser
	closed  bool
	waiting []byte // packets, each behind its length
	sending int    // bytes that the file is taking
}

// NewStream makes one that nothing is plugged into yet. What is written until then is
// dropped.
func NewStream(unplugged func(error)) *Stream {
	s := &Stream{unplugged: unplugged}
	s.changed.L = &s.mu
	return s
}

// Plug has packets go over another stream from now on. It takes the file over, whose Close
// ends what waits for it.
func (s *Stream) Plug(file io.ReadWriteCloser) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.Join(os.ErrClosed, file.Close())
	}
	old := s.file
	s.exchange(file)
	s.mu.Unlock()
	go s.send(file)
	if old != nil {
		_ = old.Close() // it may have ended by itself
	}
	return nil
}

// exchange is called with the lock held. What waits is for a stream that is no more.
func (s *Stream) exchange(file io.ReadWriteCloser) {
	s.file, s.waiting, s.sending = file, nil, 0
	s.changed.Broadcast()
}

// Read gives every frame that comes to take, which does not keep it, over one stream after
// the other, until Close.
func (s *Stream) Read(take func(frame []byte)) error {
	for {
		file := s.plugged()
		if file == nil {
			return os.ErrClosed
		}
		s.unplug(file, readPackets(file, func(packet []byte) { take(packet[HeaderSize:]) }))
	}
}

// plugged waits until there is a stream, and gives nil once closed.
func (s *Stream) plugged() io.ReadWriteCloser {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.file == nil && !s.closed {
		s.changed.Wait()
	}
	return s.file
}

// unplug is for a stream that has ended, unless another has taken its place.
func (s *Stream) unplug(file io.ReadWriteCloser, why error) {
	s.mu.Lock()
	was := s.file == file
	if was {
		s.exchange(nil)
	}
	s.mu.Unlock()
	if was {
		s.unplugged(why)
		_ = file.Close() // why is told, and is what matters
	}
}

// Write sends a frame of several pieces, or drops it. It does not wait.
func (s *Stream) Write(sum Checksum, pieces [][]byte) error {
	size := HeaderSize
	for _, piece := range pieces {
		size += len(piece)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil || size > MaxPacket || len(s.waiting)+s.sending+size > maxWaiting {
		return nil
	}
	header := headerOf(sum)
	s.waiting = append(appendLength(s.waiting, size), header[:]...)
	for _, piece := range pieces {
		s.waiting = append(s.waiting, piece...)
	}
	s.changed.Broadcast()
	return nil
}

// send has one stream take what waits.
func (s *Stream) send(file io.ReadWriteCloser) {
	for {
		list := s.take(file)
		if list == nil {
			return
		}
		if _, err := file.Write(list); err != nil {
			s.unplug(file, err)
			return
		}
	}
}

// take waits for packets, and gives nil once the stream is not the one that is plugged in.
func (s *Stream) take(file io.ReadWriteCloser) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.file == file {
		s.sending = 0
		if len(s.waiting) > 0 {
			list := s.waiting
			s.waiting, s.sending = nil, len(list)
			return list
		}
		s.changed.Wait()
	}
	return nil
}

// Close ends Read.
func (s *Stream) Close() error {
	s.mu.Lock()
	file := s.file
	s.closed = true
	s.exchange(nil)
	s.mu.Unlock()
	if file != nil {
		return file.Close()
	}
	return nil
}
