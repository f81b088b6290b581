package netdev

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// packetOf is a packet with its length before it.
func packetOf(frame string) []byte {
	return append(appendLength(nil, HeaderSize+len(frame)), append(make([]byte, HeaderSize), frame...)...)
}

// FuzzPackets: whatever a stream has, and however it comes, what is read are the packets
// that it begins with.
func FuzzPackets(f *testing.F) {
	f.Add(append(packetOf("one"), packetOf("another")...))
	f.Add(append(packetOf("one"), 0, 0))
	f.Add([]byte{0, 0, 0, HeaderSize - 1, 1, 2, 3})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3})
	f.Fuzz(func(t *testing.T, stream []byte) {
		read := func(from io.Reader) (again []byte, err error) {
			err = readPackets(from, func(packet []byte) {
				if len(packet) < HeaderSize || len(packet) > MaxPacket {
					t.Fatalf("a packet of %d bytes", len(packet))
				}
				again = append(appendLength(again, len(packet)), packet...)
			})
			return again, err
		}
		whole, err := read(bytes.NewReader(stream))
		if !bytes.HasPrefix(stream, whole) || err == nil {
			t.Errorf("%d bytes of %d are no packets of it, %v", len(whole), len(stream), err)
		}
		if (err == io.EOF) != (len(whole) == len(stream)) {
			t.Errorf("it ended after %d bytes of %d: %v", len(whole), len(stream), err)
		}
		if rest := stream[len(whole):]; len(rest) >= lengthSize && !errors.Is(err, io.ErrUnexpectedEOF) {
			if size := binary.BigEndian.Uint32(rest); size >= HeaderSize && size <= MaxPacket {
				t.Errorf("a packet of %d bytes is refused: %v", size, err)
			}
		}
		pieces, again := read(iotest.OneByteReader(bytes.NewReader(stream)))
		if !bytes.Equal(pieces, whole) || (again == io.EOF) != (err == io.EOF) {
			t.Errorf("in pieces: %d bytes, %v; as a whole: %d bytes, %v", len(pieces), again, len(whole), err)
		}
	})
}

// TestStream: packets go over one stream after the other; those of one that ends badly are
// lost, and nothing else.
func TestStream(t *testing.T) {
	ended := make(chan error, 1)
	s := NewStream(func(err error) { ended <- err })
	frames, over := make(chan string), make(chan error)
	go func() { over <- s.Read(func(frame []byte) { frames <- string(frame) }) }()
	if err := s.Write(Checksum{}, [][]byte{[]byte("for nobody")}); err != nil {
		t.Fatal(err)
	}
	plug := func() net.Conn {
		ours, theirs := net.Pipe()
		if err := s.Plug(ours); err != nil {
			t.Fatal(err)
		}
		return theirs
	}
	exchange := func(inside net.Conn) {
		t.Helper()
		if _, err := inside.Write(packetOf("in")); err != nil {
			t.Fatal(err)
		}
		if got := <-frames; got != "in" {
			t.Errorf("%q came in", got)
		}
		if err := s.Write(Checksum{Start: 34, Offset: 16}, [][]byte{[]byte("o"), []byte("ut")}); err != nil {
			t.Fatal(err)
		}
		want := packetOf("out")
		want[lengthSize] = needsChecksum
		binary.NativeEndian.PutUint16(want[lengthSize+6:], 34)
		binary.NativeEndian.PutUint16(want[lengthSize+8:], 16)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(inside, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q came out, %v", got, err)
		}
	}
	first := plug()
	exchange(first)
	second := plug() // in place of the first
	exchange(second)
	if _, err := first.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the one before is open: %v", err)
	}
	if _, err := second.Write([]byte{1, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "no packet has 16777216 bytes") {
		t.Errorf("a stream of no packets has ended with %v", err)
	}
	third := plug()
	exchange(third)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-over; !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := s.Plug(third); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed one takes a stream: %v", err)
	}
	if len(ended) > 0 {
		t.Errorf("it is told of the end of a stream that was exchanged: %v", <-ended)
	}
}

// TestStreamIsBounded: a sandbox that reads nothing has nobody wait, and no more memory
// than its share.
func TestStreamIsBounded(t *testing.T) {
	s := NewStream(func(error) {})
	ours, theirs := net.Pipe()
	defer theirs.Close()
	if err := s.Plug(ours); err != nil {
		t.Fatal(err)
	}
	frame := [][]byte{make([]byte, 60<<10)}
	for range 4 * maxWaiting / len(frame[0]) {
		if err := s.Write(Checksum{}, frame); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	held := len(s.waiting) + s.sending
	s.mu.Unlock()
	if held > maxWaiting+lengthSize || held < maxWaiting/2 {
		t.Errorf("%d bytes wait", held)
	}
	if err := s.Write(Checksum{}, [][]byte{make([]byte, MaxPacket)}); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
