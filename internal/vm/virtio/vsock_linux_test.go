package virtio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"aether/internal/host/guestmem"
	"aether/internal/host/launch"
)

// vsockGuest has room for packets to it, and takes them in their order.
type vsockGuest struct {
	*guest
	vsock *Vsock
	taken uint16
}

const packetRoom = packetSize + 4096

func newVsock(t *testing.T) *vsockGuest {
	g := &vsockGuest{}
	g.guest = newGuest(t, func(m *guestmem.Memory, interrupt func()) *Transport {
		g.vsock = NewVsock(m, 3, interrupt)
		return g.vsock.Transport
	})
	t.Cleanup(func() { g.write(regStatus, 0) })
	return g
}

// listen starts the device, with room for packets.
func (g *vsockGuest) listen() {
	g.start()
	g.taken = 0
	for n := range uint16(queueSize) {
		g.describe(queueToGuest, int(n), descriptor{buffers + uint64(n)*0x2000, packetRoom, writable, 0})
		g.offer(queueToGuest, n)
	}
	g.describe(queueEvents, 0, descriptor{buffers + 0x20000, 4, writable, 0})
	g.offer(queueEvents, 0)
	g.notify(queueToGuest)
}

// hear takes the next packet, and gives its room back.
func (g *vsockGuest) hear() (packet, []byte) {
	g.t.Helper()
	for {
		if done := uint16(guestmem.Load32(g.memory[servedAt(queueToGuest):]) >> 16); done != g.taken {
			break
		}
		<-g.told
	}
	entry := g.memory[servedAt(queueToGuest)+4+8*uint64(g.taken%queueSize):]
	head, length := binary.LittleEndian.Uint32(entry), binary.LittleEndian.Uint32(entry[4:])
	room := g.memory[buffers+uint64(head)*0x2000:][:length]
	p := parsePacket((*[packetSize]byte)(room))
	data := bytes.Clone(room[packetSize:])
	g.taken++
	g.offer(queueToGuest, uint16(head))
	g.notify(queueToGuest)
	return p, data
}

// expect wants a packet.
func (g *vsockGuest) expect(op uint16) (packet, []byte) {
	g.t.Helper()
	p, data := g.hear()
	if p.op != op || p.from != hostCID || p.to != 3 || int(p.length) != len(data) {
		g.t.Fatalf("%+v, want operation %d", p, op)
	}
	return p, data
}

// say sends a packet: head and data in two pieces, as some kernels do, or in one.
func (g *vsockGuest) say(p packet, data []byte, pieces int) {
	head := p.bytes()
	at := uint64(buffers + 0x40000)
	copy(g.memory[at:], head[:])
	copy(g.memory[at+packetSize:], data)
	if pieces == 2 {
		g.describe(queueToHost, 0, descriptor{at, packetSize, hasNext, 1})
		g.describe(queueToHost, 1, descriptor{at + packetSize, uint32(len(data)), 0, 0})
	} else {
		g.describe(queueToHost, 0, descriptor{at, packetSize + uint32(len(data)), 0, 0})
	}
	g.offer(queueToHost, 0)
	g.notify(queueToHost)
}

// connect makes a connection to the guest, and gives the host's end and what a packet of
// the guest in it looks like.
func (g *vsockGuest) connect() (*net.UnixConn, packet) {
	g.t.Helper()
	host := g.dial()
	p, _ := g.expect(opRequest)
	answer := packet{from: 3, to: hostCID, fromPort: p.toPort, toPort: p.fromPort, kind: kindStream, op: opResponse, alloc: 8 << 10}
	g.say(answer, nil, 1)
	line := make([]byte, 3)
	if _, err := io.ReadFull(host, line); err != nil || string(line) != "OK\n" {
		g.t.Fatalf("%q, %v", line, err)
	}
	return host, answer
}

func (g *vsockGuest) dial() *net.UnixConn {
	g.t.Helper()
	host, theirs, err := launch.SocketPair()
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { host.Close() })
	conn, err := net.FileConn(theirs)
	if err = errors.Join(err, theirs.Close()); err != nil {
		g.t.Fatal(err)
	}
	if err := g.vsock.Connect(conn.(*net.UnixConn), 1024, func(uint32) []byte { return []byte("OK\n") }); err != nil {
		g.t.Fatal(err)
	}
	return host
}

// closed wants the end of the host's side.
func (g *vsockGuest) closed(host net.Conn) {
	g.t.Helper()
	if n, err := host.Read(make([]byte, 1)); n != 0 || err == nil {
		g.t.Errorf("read %d bytes, %v", n, err)
	}
}

func TestVsock(t *testing.T) {
	g := newVsock(t)
	waiting := g.dial() // before the guest has looked for its devices
	g.listen()
	if p, _ := g.expect(opRequest); p.toPort != 1024 || p.alloc != room {
		t.Errorf("%+v", p)
	} else {
		g.say(packet{from: 3, to: hostCID, fromPort: 1024, toPort: p.fromPort, kind: kindStream, op: opReset}, nil, 1)
	}
	g.closed(waiting)

	host, p := g.connect()
	p.op = opData
	for pieces := 1; pieces <= 2; pieces++ {
		g.say(withLength(p, 5), []byte("hello"), pieces)
		got := make([]byte, 5)
		if _, err := io.ReadFull(host, got); err != nil || string(got) != "hello" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	// No more than the guest has room for comes, whatever the host sends.
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<10) // 16 KiB
	if _, err := host.Write(large); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for len(got) < 8<<10 {
		_, data := g.expect(opData)
		got = append(got, data...)
	}
	p.op, p.forwarded = opCredit, uint32(len(got))
	g.say(p, nil, 1)
	for len(got) < len(large) {
		_, data := g.expect(opData)
		got = append(got, data...)
	}
	if !bytes.Equal(got, large) {
		t.Error("other bytes came")
	}
	// The host may have read what the device has not yet counted.
	p.op, p.forwarded = opCreditRequest, uint32(len(got))
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		g.say(p, nil, 1)
		if answer, _ := g.expect(opCredit); answer.forwarded == 10 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%+v", answer)
		}
	}
	// Each side ends on its own.
	if err := host.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if end, _ := g.expect(opShutdown); end.flags != noSend {
		t.Errorf("%+v", end)
	}
	p.op, p.flags = opData, 0
	g.say(withLength(p, 4), []byte("last"), 2)
	p.op, p.flags = opShutdown, noSend|noReceive
	g.say(p, nil, 1)
	if rest, err := io.ReadAll(host); err != nil || string(rest) != "last" {
		t.Errorf("%q, %v", rest, err)
	}
	g.expect(opReset)
}

func withLength(p packet, n int) packet {
	p.length = uint32(n)
	return p
}

// TestHostileVsock: what a guest may say that it should not.
func TestHostileVsock(t *testing.T) {
	for what, say := range map[string]func(*vsockGuest, packet){
		"more than its packet has": func(g *vsockGuest, p packet) { g.say(withLength(p, 100), make([]byte, 99), 1) },
		"more than there is room for": func(g *vsockGuest, p packet) {
			g.say(withLength(p, room+1), make([]byte, room+1), 1)
		},
		"no known operation":      func(g *vsockGuest, p packet) { p.op = 99; g.say(p, nil, 1) },
		"a second answer":         func(g *vsockGuest, p packet) { p.op = opResponse; g.say(p, nil, 1) },
		"a connection of its own": func(g *vsockGuest, p packet) { p.op, p.toPort = opRequest, 22; g.say(p, nil, 1) },
		"another kind":            func(g *vsockGuest, p packet) { p.kind = 2; g.say(withLength(p, 0), nil, 1) },
		"another port":            func(g *vsockGuest, p packet) { p.fromPort++; g.say(withLength(p, 0), nil, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			g := newVsock(t)
			g.listen()
			_, p := g.connect()
			p.op = opData
			say(g, p)
			g.expect(opReset)
		})
	}
	t.Run("silently dropped", func(t *testing.T) {
		g := newVsock(t)
		g.listen()
		_, p := g.connect()
		for _, bad := range []packet{{from: 4, to: hostCID}, {from: 3, to: 1}, {from: 1 << 63, to: 1 << 63}} {
			g.say(bad, nil, 1)
		}
		p.op = opCreditRequest
		g.say(p, nil, 1)
		g.expect(opCredit) // and nothing before it
	})
	t.Run("credit beyond what there is", func(t *testing.T) {
		c := connection{alloc: 1 << 10, sent: 5, forwarded: 1 << 31}
		if got := c.credit(); got != 0 {
			t.Errorf("%d", got)
		}
		c = connection{alloc: 1 << 10, sent: 5, forwarded: 5}
		if got := c.credit(); got != 1<<10 {
			t.Errorf("%d", got)
		}
	})
	t.Run("never listening", func(t *testing.T) {
		g := newVsock(t)
		g.start() // without room for any packet
		p := packet{from: 3, to: hostCID, fromPort: 1, toPort: 2, kind: kindStream, op: opRequest}
		for range 2 * maxReplies {
			g.say(p, nil, 1)
		}
		if done, _ := g.served(queueToHost); int(done) != maxReplies || len(g.vsock.sockets.replies) != maxReplies {
			t.Errorf("%d heard, %d to be said", done, len(g.vsock.sockets.replies))
		}
	})
}

// A guest that goes on from a state is told that its connections are gone before it hears
// anything else.
func TestVsockRestored(t *testing.T) {
	g := newVsock(t)
	g.listen()
	host, p := g.connect()
	s := g.vsock.Save()

	other := NewVsock(guestmem.New(g.memory), 3, func() {})
	if err := other.Restore(s); err != nil {
		t.Fatal(err)
	}
	source := g.vsock
	g.vsock, g.device = other, other.Transport
	waiting := g.dial()
	defer waiting.Close()
	g.memory[buffers+0x20000] = 0xff
	other.Again()
	if done, length := g.served(queueEvents); done != 1 || length != 4 || g.memory[buffers+0x20000] != 0 {
		t.Fatalf("%d events, of %d bytes", done, length)
	}
	if done, _ := g.served(queueToGuest); done != g.taken {
		t.Error("it hears something before it has taken note")
	}
	g.offer(queueEvents, 0)
	g.notify(queueEvents)
	if asked, _ := g.expect(opRequest); asked.fromPort == p.toPort {
		t.Error("a port is used again")
	}
	// The source keeps its own.
	source.Lock()
	if len(source.sockets.open) != 1 {
		t.Error("the source has lost its connection")
	}
	source.Unlock()
	host.Close()
}
