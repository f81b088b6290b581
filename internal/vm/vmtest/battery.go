package vmtest

import "strings"

// Battery is a guest that does to each of its devices, and to those that only it has, all that
// is forbidden, one after the other. After each it uses the device well, which must serve; it says
// how far it is on its console, and switches itself off. said is all that it says.
func Battery(also ...Device) (code *Code, said string) {
	code = &Code{}
	list := append(allDevices[:len(allDevices):len(allDevices)], also...)
	for _, d := range list {
		for _, a := range append(attacks(d), attacksOn[d.name]...) {
			name := d.name + ", " + a.name + ": "
			code.Print(name)
			a.do(code, d)
			code.useWell(d)
			code.Print("refused\n")
			said += name + "refused\n"
		}
	}
	code.everywhere()
	for _, d := range list {
		code.useWell(d)
	}
	code.Print("over\n")
	code.Off()
	return code, said + "nowhere, refused\nover\n"
}

type attack struct {
	name string
	do   func(*Code, Device)
}

func attacks(d Device) []attack {
	list := append(badQueues(), badRegisters...)
	if d.queues == 1 { // those of a vsock stop when nobody takes their answers
		list = append(list, overlapping)
	}
	return list
}

// chained is an attack by descriptors, of which the first is made available.
func chained(name string, chain ...descriptor) attack {
	return attack{name, func(c *Code, d Device) {
		c.start(d, queueSize)
		for n, x := range chain {
			c.describe(d, d.busy, uint32(n), x)
		}
		c.offer(d, d.busy, 0, 0)
		c.notify(d, d.busy)
		c.awaitRefused(d)
	}}
}

// indexed is an attack by a ring of what is available.
func indexed(name string, word uint32, head uint16) attack {
	return attack{name, func(c *Code, d Device) {
		c.start(d, queueSize)
		c.Store16(d.available(d.busy)+4, head)
		c.Store(d.available(d.busy), word)
		c.notify(d, d.busy)
		c.awaitRefused(d)
		c.notify(d, d.busy) // and once more, which is nothing
	}}
}

func badQueues() []attack {
	const here = devicesAt + 0x18000
	return []attack{
		indexed("an index that jumps", (queueSize+1)<<16, 0),
		indexed("an index that goes back", 0xffff<<16, 0),
		indexed("a head beyond the queue", 1<<16, queueSize),
		indexed("a head far beyond", 1<<16, 0xffff),
		chained("a next beyond the queue", descriptor{here, 16, hasNext, queueSize}),
		chained("a loop of nothing", descriptor{here, 0, hasNext, 0}),
		chained("a loop of two", descriptor{here, 16, hasNext, 1}, descriptor{here, 16, hasNext, 0}),
		chained("an address that is nowhere", descriptor{nowhere, 16, writable, 0}),
		chained("an address far away", descriptor{1 << 60, 16, 0, 0}),
		chained("an address that wraps", descriptor{1<<64 - 1, 16, 0, 0}),
		chained("an address of its own registers", descriptor{windows, 16, writable, 0}),
		chained("a length that leads out", descriptor{here, 1<<32 - 1, writable, 0}),
		chained("an indirect one", descriptor{here, 16, indirect, 0}),
		chained("an indirect one with more", descriptor{here, 16, indirect | hasNext, 1}),
		chained("flags that nobody knows", descriptor{here, 16, 0x8000, 0}),
		chained("to be read after to be written", descriptor{here, 16, hasNext | writable, 1}, descriptor{here, 16, 0, 0}),
		{"nothing at all", func(c *Code, d Device) {
			c.start(d, queueSize)
			for n := range uint16(queueSize) {
				c.describe(d, d.busy, uint32(n), descriptor{})
				c.offer(d, d.busy, n, n)
			}
			c.notify(d, d.busy)
			c.awaitServed(d, d.busy, queueSize)
		}},
	}
}

// placed is an attack by where a queue is, or how large.
func placed(name string, register, value uint32) attack {
	return attack{name, func(c *Code, d Device) {
		c.agree(d)
		for q := range d.queues {
			c.place(d, q, queueSize)
		}
		c.Store(d.register(regReady), 0)
		c.Store(d.register(register), value)
		c.Store(d.register(regReady), 1)
		c.Store(d.register(regStatus), started)
		c.awaitRefused(d)
		c.notify(d, d.busy)
	}}
}

var badRegisters = []attack{
	placed("size 0", regSize, 0),
	placed("size 3", regSize, 3),
	placed("size 512", regSize, 512),
	placed("size 0x10000", regSize, 0x10000),
	placed("size 0x10008", regSize, 0x10008),
	placed("size 0x80000000", regSize, 1<<31),
	placed("descriptors that are not aligned", regDescriptors, devicesAt+8),
	placed("descriptors nowhere", regDescriptors, nowhere),
	placed("descriptors far away", regDescriptors+4, 1<<31),
	placed("what is available nowhere", regAvailable, nowhere-2),
	placed("what is served in its own registers", regServed, windows),
	placed("what is served around the end", regServed+4, 1<<32-1),
	{"a start before anything is agreed on", func(c *Code, d Device) {
		c.Store(d.register(regStatus), 0)
		c.Store(d.register(regStatus), started)
		c.Want(d.register(regStatus), 4, 0, "it starts")
	}},
	{"features that nobody offered", func(c *Code, d Device) {
		c.Store(d.register(regStatus), 0)
		c.Store(d.register(regStatus), 1|2)
		for word := range uint32(4) {
			c.Store(d.register(regSelect), word)
			c.Store(d.register(regFeatures), 1<<32-1)
		}
		c.Store(d.register(regStatus), agreed)
		c.Want(d.register(regStatus), 8, 0, "it agrees")
	}},
	{"another queue after the start", func(c *Code, d Device) {
		c.start(d, queueSize)
		c.place(d, d.busy, 0x10000)
		c.Store(d.register(regDescriptors), nowhere)
		c.Want(d.register(regStatus), ^uint32(0), started, "it has failed")
	}},
	{"queues that there are not", func(c *Code, d Device) {
		c.start(d, queueSize)
		for _, q := range []uint32{d.queues, 0x10000, 1 << 31, 1<<32 - 1} {
			c.Store(d.register(regQueue), q)
			c.Store(d.register(regSize), 1<<32-1)
			c.Store(d.register(regReady), 1)
			c.Want(d.register(regReady), ^uint32(0), 0, "there is one")
			c.notify(d, q)
		}
	}},
	{"accesses of other sizes", func(c *Code, d Device) {
		c.start(d, queueSize)
		for offset := uint32(0); offset < regConfig+0x40; offset++ {
			c.Store8(d.register(offset), 0)
			c.Store16(d.register(offset), 0)
		}
		c.Want(d.register(regStatus), ^uint32(0), started, "it takes them")
	}},
	{"every address of it", func(c *Code, d Device) { c.everyAddress(d.register(0), d.register(stride)) }},
	{"notifications without an end", func(c *Code, d Device) {
		c.notify(d, d.busy) // it may not have been started
		c.start(d, queueSize)
		c.Loop(500, func() {
			for q := range d.queues + 1 {
				c.notify(d, q)
			}
		})
	}},
	{"resets in the middle", func(c *Code, d Device) {
		const size = 256
		for n := uint32(0); n < 16; n += 4 { // of a disk, a read of its beginning
			c.Store(d.buffer()+n, 0)
		}
		for n := uint32(0); n < size; n += 2 {
			c.describe(d, d.busy, n, descriptor{uint64(d.buffer()), 16, hasNext, uint16(n + 1)})
			c.describe(d, d.busy, n+1, descriptor{uint64(d.buffer()) + 0x100, 0x8001, writable, 0})
			c.Store(d.available(d.busy)+4+2*n, n<<16|n)
		}
		c.Loop(100, func() {
			c.start(d, size)
			c.Store(d.available(d.busy), size<<16)
			c.notify(d, d.busy)
		})
	}},
}

// overlapping has a queue whose parts lie upon each other, so that what is served changes what
// is available. It may go on or not, but not for ever.
var overlapping = attack{"a queue upon itself", func(c *Code, d Device) {
	c.agree(d)
	c.place(d, 0, queueSize)
	c.Store(d.register(regReady), 0)
	c.Store(d.register(regServed), d.available(0))
	c.Store(d.register(regReady), 1)
	c.Store(d.register(regStatus), started)
	c.describe(d, 0, 0, descriptor{uint64(d.available(0)), 16, writable, 0})
	c.offer(d, 0, 0, 0)
	c.Loop(100, func() { c.notify(d, 0) })
}}

var attacksOn = map[string][]attack{
	Disk.name: {
		asked("a sector far beyond", 0, 1<<60, 512),
		asked("a sector that wraps", 0, 1<<64-1, 512),
		asked("no whole sector", 0, 0, 511),
		asked("a write", 1, 0, 512),
		asked("a kind that nobody knows", 1<<32-1, 0, 512),
	},
	Writable.name: {
		asked("a sector far beyond", 0, 1<<60, 512),
		written("a write far beyond", 1<<60, 512),
		written("a write that wraps", 1<<64-1, 512),
		written("a write of no whole sector", 0, 511),
		asked("a kind that nobody knows", 1<<32-1, 0, 512),
	},
	Vsock.name: {
		told("another sender", packet{from: 7, op: 1}),
		told("another receiver", packet{to: 1<<64 - 1, op: 1}),
		told("another kind", packet{kind: 2, op: 1}),
		told("operation 0", packet{op: 0}),
		told("operation 0xffff", packet{op: 0xffff, toPort: 1 << 30}),
		told("data to nobody", packet{op: 5, toPort: 1 << 30, length: 1<<32 - 1}),
		told("a longer length than there is", packet{op: 5, length: 4096}),
		told("connections of its own", packet{op: 1, toPort: 22, alloc: 1<<32 - 1}),
		told("credit for nobody", packet{op: 6, toPort: 1 << 30, alloc: 1<<32 - 1, forwarded: 1<<32 - 1}),
		told("requests for credit", packet{op: 7, toPort: 1 << 30}),
		told("an answer to nobody", packet{op: 2, toPort: 1<<30 + 1}),
		{"a packet of ten bytes", func(c *Code, d Device) {
			c.start(d, queueSize)
			c.packet(d.buffer(), packet{op: 1})
			c.describe(d, d.busy, 0, descriptor{uint64(d.buffer()), 10, 0, 0})
			c.offer(d, d.busy, 0, 0)
			c.notify(d, d.busy)
			c.awaitServed(d, d.busy, 1)
		}},
		{"room that is nowhere", func(c *Code, d Device) {
			c.start(d, queueSize)
			c.describe(d, 0, 0, descriptor{nowhere, 4096, writable, 0})
			c.offer(d, 0, 0, 0)
			c.packet(d.buffer(), packet{op: 1})
			c.describe(d, d.busy, 0, descriptor{uint64(d.buffer()), packetSize, 0, 0})
			c.offer(d, d.busy, 0, 0)
			c.notify(d, d.busy)
			c.awaitRefused(d)
		}},
		{"room that is none", func(c *Code, d Device) {
			c.start(d, queueSize)
			for n := range uint16(queueSize) {
				c.describe(d, 0, uint32(n), descriptor{uint64(d.buffer()), 43, writable, 0})
				c.offer(d, 0, n, n)
			}
			c.packet(d.buffer()+0x1000, packet{op: 1})
			c.describe(d, d.busy, 0, descriptor{uint64(d.buffer()) + 0x1000, packetSize, 0, 0})
			c.offer(d, d.busy, 0, 0)
			c.notify(d, d.busy)
			c.awaitServed(d, 0, queueSize) // all of it is of no use
		}},
	},
}

// asked is a request of a disk that fails, with an answer, and written one with data.
func asked(name string, kind uint32, sector uint64, length uint32) attack {
	return requested(name, kind, sector, length, writable)
}

func written(name string, sector uint64, length uint32) attack {
	return requested(name, 1, sector, length, 0)
}

func requested(name string, kind uint32, sector uint64, length uint32, direction uint16) attack {
	return attack{name, func(c *Code, d Device) {
		room := d.buffer()
		c.start(d, queueSize)
		for n, v := range []uint32{kind, 0, uint32(sector), uint32(sector >> 32), 0xff} {
			c.Store(room+4*uint32(n), v)
		}
		c.describe(d, 0, 0, descriptor{uint64(room), 16, hasNext, 1})
		c.describe(d, 0, 1, descriptor{uint64(room) + 0x100, length, hasNext | direction, 2})
		c.describe(d, 0, 2, descriptor{uint64(room) + 16, 1, writable, 0})
		c.offer(d, 0, 0, 0)
		c.notify(d, 0)
		c.awaitServed(d, 0, 1)
		c.Want(room+16, 0xfc, 0, "it has no answer")
		c.compare(room+16, 0xff, 0)
		c.Raw(0x75, 2, 0xeb, 0xfe) // jne over; or stand still, which is found
	}}
}

// told is a packet that is sent again and again, with nobody to take the answers: it is not
// listened to any more after a while, and is again when they are taken.
func told(name string, p packet) attack {
	return attack{name, func(c *Code, d Device) {
		c.start(d, queueSize)
		c.packet(d.buffer(), p)
		for n := range uint32(queueSize) {
			c.describe(d, d.busy, n, descriptor{uint64(d.buffer()), packetSize, 0, 0})
			c.Store16(d.available(d.busy)+4+2*n, uint16(n))
		}
		c.Store(d.available(d.busy), queueSize<<16)
		c.notify(d, d.busy)
		c.awaitServed(d, d.busy, queueSize)
	}}
}

// everyAddress reads, and writes what it has read, at every address of a range, four bytes
// at a time.
func (c *Code) everyAddress(from, to uint32) {
	c.Raw(0xbe) // mov esi, from
	c.words(from)
	c.Raw(0x8b, 0x06, 0x89, 0x06) // mov eax, [esi]; mov [esi], eax
	c.Raw(0x46, 0x81, 0xfe)       // inc esi; cmp esi, to
	c.words(to)
	c.Raw(0x75, 0xf3) // jne
}

// everywhere reads from ports of all kinds and from where nothing is, and writes there.
func (c *Code) everywhere() {
	c.Print("nowhere, ")
	for _, at := range []uint32{0xb0000000, nowhere, windows + 4*stride, windows + 0x100000, 0xfed00000, 0xfffffff0} {
		c.everyAddress(at, at+8)
	}
	c.Raw(0x31, 0xd2)                         // xor edx, edx
	c.Raw(0xec, 0x66, 0xed, 0xed)             // in al, dx; in ax, dx; in eax, dx
	c.Raw(0x66, 0x83, 0xc2, 0x0d, 0x73, 0xf6) // add dx, 13; jnc
	c.Raw(0x66, 0xba, 0x00, 0x07)             // mov dx, 0x700: from behind what there is
	c.Raw(0xee, 0x66, 0xef, 0xef)             // out dx, al; out dx, ax; out dx, eax
	c.Raw(0x66, 0x83, 0xc2, 0x0d, 0x73, 0xf6)
	c.Print("refused\n")
}

// ConsoleFlood says the same for ever.
func ConsoleFlood() *Code {
	c := &Code{}
	c.Loop(0, func() { c.Print(strings.Repeat("\x1b", 63) + "\n") })
	return c
}

// VsockFlood sends packets for ever, and takes no answer.
func VsockFlood() *Code {
	c := &Code{}
	d := Vsock
	c.start(d, queueSize)
	c.packet(d.buffer(), packet{op: 1, toPort: 22, alloc: 1<<32 - 1})
	for n := range uint32(queueSize) {
		c.describe(d, d.busy, n, descriptor{uint64(d.buffer()), packetSize, 0, 0})
		c.Store16(d.available(d.busy)+4+2*n, uint16(n))
	}
	c.Print("flood\n")
	c.Loop(0, func() {
		// As much more as was served.
		c.Copy(d.available(d.busy), d.served(d.busy))
		c.Add(d.available(d.busy), queueSize<<16)
		c.notify(d, d.busy)
	})
	return c
}

// transfer has a disk read or write a sector, at where data is, and wants it to succeed.
func (c *Code) transfer(d Device, kind, sector uint32) (data uint32) {
	room := d.buffer()
	data = room + 0x1000
	c.start(d, queueSize)
	for n, v := range []uint32{kind, 0, sector, 0, 0xff} {
		c.Store(room+4*uint32(n), v)
	}
	direction := uint16(writable)
	if kind != 0 {
		direction = 0
	}
	c.describe(d, 0, 0, descriptor{uint64(room), 16, hasNext, 1})
	c.describe(d, 0, 1, descriptor{uint64(data), 512, hasNext | direction, 2})
	c.describe(d, 0, 2, descriptor{uint64(room) + 16, 1, writable, 0})
	c.offer(d, 0, 0, 0)
	c.notify(d, 0)
	c.awaitServed(d, 0, 1)
	c.Want(room+16, 0xff, 0, "the disk fails")
	return data
}

// Put writes four bytes to a sector of the writable disk.
func (c *Code) Put(sector, value uint32) {
	c.Store(Writable.buffer()+0x1000, value)
	c.transfer(Writable, 1, sector)
}

// WantPut wants a sector of the writable disk to begin with four bytes.
func (c *Code) WantPut(sector, value uint32) {
	c.Store(Writable.buffer()+0x1000, 0)
	c.Want(c.transfer(Writable, 0, sector), ^uint32(0), value, "the disk has other content")
}

// AwaitCopy goes on in a copy of the machine alone, which has another generation. It says at an
// address that it waits.
func (c *Code) AwaitCopy(at uint32) {
	const generation = 0xff000
	c.Copy(at+0x20, generation)
	c.Store(at, 1)
	start := len(c.text)
	c.Raw(0xa1) // mov eax, [generation]
	c.words(generation)
	c.Raw(0x3b, 0x05) // cmp eax, [at+0x20]
	c.words(at + 0x20)
	c.back(start, 0x0f, 0x84) // je
}

// listen starts the vsock with room for so many packets, waits until the host connects and
// agrees, with credit without an end. All packets but the first come to where it gives.
func (c *Code) listen(rooms uint16) (later uint32) {
	d := Vsock
	const size = 256
	first := d.buffer() + 0x2000
	later = first + 0x1000
	c.start(d, size)
	for n := range uint32(rooms) {
		c.describe(d, 0, n, descriptor{uint64(first + min(n, 1)*0x1000), 4096, writable, 0})
		c.Store16(d.available(0)+4+2*n, uint16(n))
	}
	c.Store(d.available(0), uint32(rooms)<<16)
	c.notify(d, 0)
	c.awaitServed(d, 0, 1)
	c.packet(d.buffer(), packet{op: 2, alloc: 1<<32 - 1, forwarded: 0x12345678})
	c.Copy(d.buffer()+16, first+20)
	c.Copy(d.buffer()+20, first+16)
	c.describe(d, 1, 0, descriptor{uint64(d.buffer()), packetSize, 0, 0})
	c.Store(d.available(1), 1<<16)
	c.notify(d, 1)
	c.awaitServed(d, 1, 1)
	return later
}

// Overrun takes a connection and sends more than it was told that there is room for, a
// mebibyte. It switches itself off when the connection was ended for that.
func Overrun() *Code {
	c := &Code{}
	d := Vsock
	later := c.listen(128)
	const length = 16 << 10
	c.Store(later+28, 0)
	c.Store(d.buffer()+24, length)
	c.Store(d.buffer()+28, 1|5<<16) // data
	c.describe(d, 1, 0, descriptor{uint64(d.buffer()), packetSize, hasNext, 1})
	c.describe(d, 1, 1, descriptor{uint64(d.buffer()) + 0x8000, length, 0, 0})
	for n := range uint32(64) {
		c.Store16(d.available(1)+4+2*n, 0)
	}
	c.Store(d.available(1), 65<<16)
	c.notify(d, 1)
	c.Await(later+28, 0xffff0000, 3<<16) // a reset
	c.Print("ended\n")
	c.Off()
	return c
}

// Unread takes a connection, says that it has room for 4 GiB, and has none.
func Unread() *Code {
	c := &Code{}
	c.listen(1)
	c.Spin()
	return c
}
