package virtio

import (
	"bytes"
	"encoding/binary"
	"testing"

	"aether/internal/host/guestmem"
)

// guest plays the driver of a device, well or badly.
type guest struct {
	t          testing.TB
	memory     []byte
	device     *Transport
	interrupts int
	told       chan struct{}     // something has changed since the last look
	next       [maxQueues]uint16 // what was made available, ever
}

const (
	memorySize = 1 << 20
	queueSize  = 8
	// buffers is where requests are put.
	buffers = 0x80000
)

// Where the parts of queue n are.
func descriptorsAt(n int) uint64 { return uint64(0x1000 + n*0x4000) }
func availableAt(n int) uint64   { return uint64(0x2000 + n*0x4000) }
func servedAt(n int) uint64      { return uint64(0x3000 + n*0x4000) }

func newGuest(t testing.TB, device func(*guestmem.Memory, func()) *Transport) *guest {
	told := make(chan struct{}, 1)
	g := &guest{t: t, memory: alignedBytes(memorySize)}
	g.told = told
	g.device = device(guestmem.New(g.memory), func() {
		g.interrupts++ // the device's lock is held
		select {
		case told <- struct{}{}:
		default:
		}
	})
	return g
}

func alignedBytes(size int) []byte { return make([]byte, size) } // large ones are on pages

func (g *guest) write(register uint64, value uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], value)
	g.device.Write(register, b[:])
}

func (g *guest) read(register uint64) uint32 {
	var b [4]byte
	g.device.Read(register, b[:])
	return binary.LittleEndian.Uint32(b[:])
}

// agree comes as far as FEATURES_OK.
func (g *guest) agree() {
	g.write(regStatus, 0)
	g.next = [maxQueues]uint16{}
	g.write(regStatus, acknowledged)
	g.write(regStatus, acknowledged|driver)
	g.write(regDriverSelect, 1)
	g.write(regDriverFeatures, 1)
	g.write(regStatus, acknowledged|driver|featuresOK)
}

func (g *guest) place(n int, size uint32) {
	g.write(regQueueSelect, uint32(n))
	g.write(regQueueSize, size)
	g.write(regDescriptorsLow, uint32(descriptorsAt(n)))
	g.write(regAvailableLow, uint32(availableAt(n)))
	g.write(regServedLow, uint32(servedAt(n)))
	g.write(regQueueReady, 1)
}

func (g *guest) start() {
	g.agree()
	for n := range g.device.Queues() {
		g.place(n, queueSize)
	}
	g.write(regStatus, acknowledged|driver|featuresOK|driverOK)
	if got := g.read(regStatus); got != acknowledged|driver|featuresOK|driverOK {
		g.t.Fatalf("the status is %#x", got)
	}
}

// descriptor is one of a chain.
type descriptor struct {
	address uint64
	length  uint32
	flags   uint16
	next    uint16
}

func (g *guest) describe(n, at int, d descriptor) {
	b := g.memory[descriptorsAt(n)+uint64(at)*descriptorSize:]
	binary.LittleEndian.PutUint64(b, d.address)
	binary.LittleEndian.PutUint32(b[8:], d.length)
	binary.LittleEndian.PutUint16(b[12:], d.flags)
	binary.LittleEndian.PutUint16(b[14:], d.next)
}

// offer makes a chain available that begins at a descriptor.
func (g *guest) offer(n int, head uint16) {
	ring := g.memory[availableAt(n):]
	binary.LittleEndian.PutUint16(ring[4+2*(g.next[n]%queueSize):], head)
	g.next[n]++
	guestmem.Store32(ring, uint32(binary.LittleEndian.Uint16(ring))|uint32(g.next[n])<<16) // the flags stay
}

func (g *guest) notify(n int) { g.write(NotifyRegister, uint32(n)) }

// served is how many chains were, and the length of the last.
func (g *guest) served(n int) (uint16, uint32) {
	ring := g.memory[servedAt(n):]
	done := binary.LittleEndian.Uint16(ring[2:])
	return done, binary.LittleEndian.Uint32(ring[4+8*((done-1)%queueSize)+4:])
}

func (g *guest) broken() bool { return g.read(regStatus)&needsReset != 0 }

type content struct{ *bytes.Reader }

func (c content) Size() int64 { return c.Reader.Size() }

func newDisk(t testing.TB, data []byte) *guest {
	return newGuest(t, func(m *guestmem.Memory, interrupt func()) *Transport {
		return NewDisk(m, content{bytes.NewReader(data)}, interrupt)
	})
}
