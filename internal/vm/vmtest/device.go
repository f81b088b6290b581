package vmtest

// Registers of virtio-mmio, and where the windows of the devices are.
const (
	windows = 0xd0000000
	stride  = 0x1000

	regFeatures    = 0x020
	regSelect      = 0x024
	regQueue       = 0x030
	regSize        = 0x038
	regReady       = 0x044
	regNotify      = 0x050
	regStatus      = 0x070
	regDescriptors = 0x080
	regAvailable   = 0x090
	regServed      = 0x0a0
	regConfig      = 0x100

	agreed     = 1 | 2 | 8 // up to FEATURES_OK
	started    = agreed | 4
	needsReset = 64

	hasNext  = 1
	writable = 2
	indirect = 4

	// queueSize is of queues that are as they should be.
	queueSize = 8
	// nowhere is where a guest has no memory, with less than 3 GiB.
	nowhere = 0xc0000000
)

// Device is one of a guest's.
type Device struct {
	name   string
	number uint32
	queues uint32
	// busy is the queue that is served by itself, without anything that the host does.
	busy uint32
}

// The devices that guests have, by their order.
var (
	Disk    = Device{"disk", 0, 1, 0}
	Vsock   = Device{"vsock", 1, 3, 1}
	Entropy = Device{"entropy", 2, 1, 0}
	// Writable is a disk that only some have.
	Writable = Device{"writable disk", 3, 1, 0}
)

var allDevices = []Device{Disk, Vsock, Entropy}

func (d Device) register(offset uint32) uint32 { return windows + d.number*stride + offset }

// Where the parts of a queue are, and room for requests.
func (d Device) memory() uint32              { return devicesAt + d.number*0x20000 }
func (d Device) descriptors(q uint32) uint32 { return d.memory() + q*0x4000 }
func (d Device) available(q uint32) uint32   { return d.descriptors(q) + 0x1000 }
func (d Device) served(q uint32) uint32      { return d.descriptors(q) + 0x2000 }
func (d Device) buffer() uint32              { return d.memory() + 0x10000 }

// agree resets the device and comes as far as FEATURES_OK.
func (c *Code) agree(d Device) {
	for _, v := range []uint32{0, 1, 1 | 2} {
		c.Store(d.register(regStatus), v)
	}
	c.Store(d.register(regSelect), 1)
	c.Store(d.register(regFeatures), 1)
	c.Store(d.register(regStatus), agreed)
}

// place says where a queue is, and that it is empty.
func (c *Code) place(d Device, q, size uint32) {
	c.Store(d.available(q), 0)
	c.Store(d.served(q), 0)
	c.Store(d.register(regQueue), q)
	c.Store(d.register(regReady), 0)
	c.Store(d.register(regSize), size)
	c.Store(d.register(regDescriptors), d.descriptors(q))
	c.Store(d.register(regAvailable), d.available(q))
	c.Store(d.register(regServed), d.served(q))
	c.Store(d.register(regReady), 1)
}

// start brings a device to where it serves.
func (c *Code) start(d Device, size uint32) {
	c.agree(d)
	for q := range d.queues {
		c.place(d, q, size)
	}
	c.Store(d.register(regStatus), started)
}

// descriptor is one of a chain.
type descriptor struct {
	address     uint64
	length      uint32
	flags, next uint16
}

func (c *Code) describe(d Device, q, at uint32, x descriptor) {
	to := d.descriptors(q) + 16*at
	c.Store(to, uint32(x.address))
	c.Store(to+4, uint32(x.address>>32))
	c.Store(to+8, x.length)
	c.Store(to+12, uint32(x.flags)|uint32(x.next)<<16)
}

// offer makes a chain available as the how manieth, from zero, of a queue of the usual size.
func (c *Code) offer(d Device, q uint32, nth, head uint16) {
	c.Store16(d.available(q)+4+2*uint32(nth%queueSize), head)
	c.Store(d.available(q), uint32(nth+1)<<16)
}

func (c *Code) notify(d Device, q uint32) { c.Store(d.register(regNotify), q) }

// awaitServed waits until so many chains were, ever.
func (c *Code) awaitServed(d Device, q uint32, count uint16) {
	c.Await(d.served(q), 0xffff0000, uint32(count)<<16)
}

// awaitRefused waits until the device is of no use any more.
func (c *Code) awaitRefused(d Device) { c.Await(d.register(regStatus), needsReset, needsReset) }

// useWell uses a device as it should be, from its reset on, and wants it to serve.
func (c *Code) useWell(d Device) {
	c.start(d, queueSize)
	c.Want(d.register(regStatus), ^uint32(0), started, "it does not start")
	room := d.buffer()
	switch d.name {
	case Disk.name, Writable.name: // what it is called
		c.Store(room, 8)
		c.Store(room+32, 0xff)
		c.describe(d, 0, 0, descriptor{uint64(room), 16, hasNext, 1})
		c.describe(d, 0, 1, descriptor{uint64(room) + 64, 20, hasNext | writable, 2})
		c.describe(d, 0, 2, descriptor{uint64(room) + 32, 1, writable, 0})
	case Vsock.name: // a connection to nobody
		c.packet(room, packet{op: 1})
		c.describe(d, d.busy, 0, descriptor{uint64(room), packetSize, 0, 0})
	case Entropy.name:
		c.describe(d, 0, 0, descriptor{uint64(room), 64, writable, 0})
	}
	c.offer(d, d.busy, 0, 0)
	c.notify(d, d.busy)
	c.awaitServed(d, d.busy, 1)
	switch d.name {
	case Disk.name, Writable.name:
		c.Want(room+32, 0xff, 0, "it fails")
		c.Want(room+64, ^uint32(0), 0x68746561, "it is called otherwise") // aeth
	case Entropy.name:
		c.Want(d.served(0)+8, ^uint32(0), 64, "it gives less")
	}
	c.Want(d.register(regStatus), ^uint32(0), started, "it has failed")
}

const packetSize = 44

// packet is one of a vsock. What is zero is as it should be.
type packet struct {
	from, to         uint64
	fromPort, toPort uint32
	length           uint32
	kind, op         uint16
	alloc, forwarded uint32
}

// packet writes the head of one.
func (c *Code) packet(at uint32, p packet) {
	if p.from == 0 {
		p.from = 3
	}
	if p.to == 0 {
		p.to = 2
	}
	if p.kind == 0 {
		p.kind = 1
	}
	for n, v := range []uint32{uint32(p.from), uint32(p.from >> 32), uint32(p.to), uint32(p.to >> 32), p.fromPort, p.toPort, p.length,
		uint32(p.kind) | uint32(p.op)<<16, 0, p.alloc, p.forwarded} {
		c.Store(at+4*uint32(n), v)
	}
}
