package virtio

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"io"
	"testing"

	"aether/internal/host/guestmem"
)

// request describes a read of sectors at descriptors 0 to 2, and gives where its data is.
func (g *guest) request(kind uint32, first uint64, length uint32) []byte {
	binary.LittleEndian.PutUint32(g.memory[buffers:], kind)
	binary.LittleEndian.PutUint64(g.memory[buffers+8:], first)
	g.memory[buffers+16] = 0xff
	g.describe(0, 0, descriptor{buffers, 16, hasNext, 1})
	g.describe(0, 1, descriptor{buffers + 0x1000, length, hasNext | writable, 2})
	g.describe(0, 2, descriptor{buffers + 16, 1, writable, 0})
	g.offer(0, 0)
	g.notify(0)
	return g.memory[buffers+0x1000 : buffers+0x1000+length]
}

func TestDisk(t *testing.T) {
	data := make([]byte, 3*sector+100)
	_, _ = rand.Read(data)
	g := newDisk(t, data)
	g.start()
	if got := g.read(regConfig); got != 4 {
		t.Errorf("it has %d sectors", got)
	}
	for _, c := range []struct {
		what   string
		kind   uint32
		first  uint64
		length uint32
		answer byte
		want   []byte
	}{
		{"a read", requestRead, 1, 2 * sector, answerOK, data[sector : 3*sector]},
		{"the last sector, which is short", requestRead, 3, sector, answerOK, append(bytes.Clone(data[3*sector:]), make([]byte, sector-100)...)},
		{"one beyond", requestRead, 4, sector, answerFailed, nil},
		{"far beyond", requestRead, 1 << 63, sector, answerFailed, nil},
		{"an end beyond", requestRead, 3, 2 * sector, answerFailed, nil},
		{"half a sector", requestRead, 0, sector / 2, answerFailed, nil},
		{"a flush", requestFlush, 0, 0, answerOK, nil},
		{"a write", 1, 0, sector, answerUnsupported, nil},
		{"a discard", 11, 0, sector, answerUnsupported, nil},
		{"its name", requestIdentity, 0, 20, answerOK, []byte("aether\x00")},
	} {
		interrupts := g.interrupts
		done, _ := g.served(0)
		got := g.request(c.kind, c.first, c.length)
		if answer := g.memory[buffers+16]; answer != c.answer || c.want != nil && !bytes.HasPrefix(got, c.want) {
			t.Errorf("%s: answer %d", c.what, answer)
		}
		if now, _ := g.served(0); now != done+1 || g.interrupts != interrupts+1 || g.read(regInterruptStatus) != queueInterrupt {
			t.Errorf("%s: served %d, %d interrupts", c.what, now-done, g.interrupts-interrupts)
		}
		g.write(regInterruptAck, queueInterrupt)
	}
	// A guest that looks by itself is not interrupted.
	binary.LittleEndian.PutUint16(g.memory[availableAt(0):], 1)
	interrupts := g.interrupts
	if g.request(requestFlush, 0, 0); g.interrupts != interrupts {
		t.Error("it is interrupted all the same")
	}
}

// put describes a write of sectors at descriptors 0 to 3, in two pieces.
func (g *guest) put(first uint64, data []byte) byte {
	binary.LittleEndian.PutUint32(g.memory[buffers:], requestWrite)
	binary.LittleEndian.PutUint64(g.memory[buffers+8:], first)
	g.memory[buffers+16] = 0xff
	copy(g.memory[buffers+0x1000:], data)
	half := len(data) / 2
	g.describe(0, 0, descriptor{buffers, 16, hasNext, 1})
	g.describe(0, 1, descriptor{buffers + 0x1000, uint32(half), hasNext, 2})
	g.describe(0, 2, descriptor{buffers + 0x1000 + uint64(half), uint32(len(data) - half), hasNext, 3})
	g.describe(0, 3, descriptor{buffers + 16, 1, writable, 0})
	g.offer(0, 0)
	g.notify(0)
	return g.memory[buffers+16]
}

// store is a disk in memory.
type store []byte

func (s store) Size() int64                                { return int64(len(s)) }
func (s store) ReadAt(to []byte, at int64) (int, error)    { return copy(to, s[at:]), nil }
func (s store) WriteAt(from []byte, at int64) (int, error) { return copy(s[at:], from), nil }

// TestWritableDisk: what is written is read, and nothing is written where the disk is not.
func TestWritableDisk(t *testing.T) {
	disk := make(store, 8*sector)
	g := newGuest(t, func(m *guestmem.Memory, interrupt func()) *Transport { return NewWritableDisk(m, disk, interrupt) })
	g.start()
	if g.write(0x014, 0); g.read(0x010)&featureReadOnly != 0 {
		t.Error("it says that it is only read")
	}
	data := make([]byte, 3*sector)
	_, _ = rand.Read(data)
	if answer := g.put(2, data); answer != answerOK || !bytes.Equal(disk[2*sector:5*sector], data) {
		t.Errorf("a write: answer %d", answer)
	}
	if got := g.request(requestRead, 2, 3*sector); g.memory[buffers+16] != answerOK || !bytes.Equal(got, data) {
		t.Error("a read of what was written")
	}
	before := bytes.Clone(disk)
	for what, first := range map[string]uint64{"beyond": 8, "an end beyond": 6, "far beyond": 1 << 63, "around the end": 1<<64 - 1} {
		if answer := g.put(first, data); answer != answerFailed {
			t.Errorf("%s: answer %d", what, answer)
		}
	}
	if answer := g.put(0, data[:sector+7]); answer != answerFailed {
		t.Errorf("no whole sectors: answer %d", answer)
	}
	if g.broken() || !bytes.Equal(disk, before) {
		t.Error("the disk has changed, or is of no use any more")
	}
}

func TestEntropy(t *testing.T) {
	g := newGuest(t, NewEntropy)
	g.start()
	g.describe(0, 0, descriptor{buffers, 128 << 10, writable, 0})
	g.offer(0, 0)
	g.notify(0)
	if done, length := g.served(0); done != 1 || length != maxEntropy {
		t.Errorf("served %d, of %d bytes", done, length)
	}
	got := g.memory[buffers : buffers+maxEntropy]
	if bytes.Count(got, []byte{0}) > maxEntropy/64 || bytes.Count(g.memory[buffers+maxEntropy:buffers+128<<10], []byte{0}) != 64<<10 {
		t.Error("it is not random, or too much")
	}
}

// TestHostileQueues: whatever a guest puts into its queues, nothing but its memory is
// touched, and its device is of no use to it until it is reset.
func TestHostileQueues(t *testing.T) {
	for what, spoil := range map[string]func(*guest){
		"more available than there is": func(g *guest) { g.next[0] += queueSize; g.offer(0, 0) },
		"a head beyond the queue":      func(g *guest) { g.offer(0, queueSize) },
		"a next beyond the queue":      func(g *guest) { g.describe(0, 0, descriptor{buffers, 1, hasNext, queueSize}); g.offer(0, 0) },
		"a loop":                       func(g *guest) { g.describe(0, 0, descriptor{buffers, 0, hasNext, 0}); g.offer(0, 0) },
		"a buffer outside":             func(g *guest) { g.describe(0, 0, descriptor{memorySize - 1, 2, writable, 0}); g.offer(0, 0) },
		"a buffer that wraps":          func(g *guest) { g.describe(0, 0, descriptor{1<<64 - 1, 2, writable, 0}); g.offer(0, 0) },
		"an indirect one":              func(g *guest) { g.describe(0, 0, descriptor{buffers, 16, 4, 0}); g.offer(0, 0) },
		"one to be read after one to be written": func(g *guest) {
			g.describe(0, 0, descriptor{buffers, 1, hasNext | writable, 1})
			g.describe(0, 1, descriptor{buffers, 1, 0, 0})
			g.offer(0, 0)
		},
	} {
		g := newDisk(t, make([]byte, sector))
		g.start()
		spoil(g)
		g.notify(0)
		if !g.broken() || g.read(regInterruptStatus)&configInterrupt == 0 {
			t.Errorf("%s: the device goes on", what)
		}
		if done, _ := g.served(0); done != 0 {
			t.Errorf("%s: %d served", what, done)
		}
		g.notify(0) // and nothing is met twice
		g.start()
		if g.request(requestFlush, 0, 0); g.memory[buffers+16] != answerOK {
			t.Errorf("%s: it does not serve after a reset", what)
		}
	}
}

// Zero lengths and requests without room for an answer are consumed.
func TestUselessRequests(t *testing.T) {
	for what, d := range map[string]descriptor{
		"nothing":    {0, 0, 0, 0},
		"no room":    {buffers, 16, 0, 0},
		"no request": {buffers, 1, writable, 0},
		"short head": {buffers, 3, 0, 0},
	} {
		g := newDisk(t, make([]byte, sector))
		g.start()
		g.describe(0, 0, d)
		g.offer(0, 0)
		g.notify(0)
		if done, length := g.served(0); done != 1 || length > 1 || g.broken() {
			t.Errorf("%s: %d served, %d bytes, broken %v", what, done, length, g.broken())
		}
	}
}

// endless is a disk of any size, of which nothing is there.
type endless struct{ read int }

func (e *endless) Size() int64 { return 1 << 40 }
func (e *endless) ReadAt(to []byte, _ int64) (int, error) {
	e.read += len(to)
	return len(to), nil
}

// One request is bounded, however often the guest has named the same memory in it.
func TestLongRead(t *testing.T) {
	part := make([]byte, 1<<20)
	for parts, want := range map[int]byte{maxTransfer / len(part): answerOK, maxTransfer/len(part) + 1: answerFailed} {
		disk, c := &endless{}, &chain{}
		for range parts {
			c.write = append(c.write, part)
		}
		length := uint64(parts * len(part))
		if _, answer := (&block{content: disk}).read(c, 0, length); answer != want || (want == answerOK) != (disk.read == int(length)) {
			t.Errorf("%d MiB: answer %d, of which %d bytes were read", parts, answer, disk.read)
		}
	}
}

// TestHostileRegisters: registers are believed in their turn only, and queues only where
// memory is.
func TestHostileRegisters(t *testing.T) {
	size := func(v uint32) func(*guest) { return func(g *guest) { g.place(0, v) } }
	put := func(register uint64, v uint32) func(*guest) {
		return func(g *guest) {
			g.write(regQueueReady, 0)
			g.place(0, queueSize)
			g.write(regQueueReady, 0)
			g.write(register, v)
			g.write(regQueueReady, 1)
		}
	}
	for what, place := range map[string]func(*guest){
		"size 0": size(0), "size 3": size(3), "size 512": size(512), "size 0x10000": size(0x10000), "size 0x10008": size(0x10008),
		"descriptors unaligned":  put(regDescriptorsLow, 0x1008),
		"descriptors outside":    put(regDescriptorsLow, memorySize-16),
		"descriptors far":        put(regDescriptorsHigh, 1),
		"available unaligned":    put(regAvailableLow, 0x2001),
		"available outside":      put(regAvailableLow, memorySize-4),
		"served unaligned":       put(regServedLow, 0x3002),
		"served outside":         put(regServedLow, memorySize-4),
		"served around the end":  put(regServedHigh, 0xffffffff),
		"descriptors in the gap": put(regDescriptorsLow, guestmem.LowEnd),
	} {
		g := newDisk(t, make([]byte, sector))
		g.agree()
		place(g)
		g.write(regStatus, acknowledged|driver|featuresOK|driverOK)
		if !g.broken() {
			t.Errorf("%s: it is taken", what)
		}
		g.notify(0)
	}
	t.Run("geometry after the start", func(t *testing.T) {
		g := newDisk(t, make([]byte, sector))
		g.start()
		g.place(0, 0x10000)
		g.write(regDescriptorsLow, memorySize)
		if g.request(requestFlush, 0, 0); g.memory[buffers+16] != answerOK || g.broken() {
			t.Error("what is said after the start is believed")
		}
	})
	t.Run("status", func(t *testing.T) {
		g := newDisk(t, nil)
		g.write(regStatus, driverOK)
		if got := g.read(regStatus); got&driverOK != 0 {
			t.Errorf("started before anything was agreed on: %#x", got)
		}
		g.agree()
		g.write(regStatus, acknowledged) // bits are not taken away
		g.write(regStatus, needsReset|acknowledged|driver|featuresOK)
		if got := g.read(regStatus); got != acknowledged|driver|featuresOK {
			t.Errorf("the status is %#x", got)
		}
		g.write(regDriverFeatures, 0) // too late
		g.write(regStatus, 0)
		g.write(regStatus, acknowledged|driver)
		g.write(regDriverSelect, 0)
		g.write(regDriverFeatures, 1<<31)
		g.write(regDriverSelect, 1)
		g.write(regDriverFeatures, 1)
		g.write(regStatus, acknowledged|driver|featuresOK)
		if g.read(regStatus)&featuresOK != 0 {
			t.Error("a feature that was not offered is agreed on")
		}
	})
	t.Run("bounds", func(t *testing.T) {
		g := newDisk(t, make([]byte, sector))
		g.start()
		g.write(regQueueSelect, 1<<31)
		g.write(regQueueSize, 1)
		if g.read(regQueueMax) != 0 || g.read(regQueueReady) != 0 {
			t.Error("there is a queue of that number")
		}
		g.write(NotifyRegister, 1<<31)
		g.write(NotifyRegister, 1)
		for _, size := range []int{1, 2, 8} {
			data := bytes.Repeat([]byte{0xee}, size)
			g.device.Write(regStatus, data)
			if g.device.Read(regMagic, data); !bytes.Equal(data, make([]byte, size)) {
				t.Errorf("a register of %d bytes is %x", size, data)
			}
			g.device.Read(regConfig+uint64(len(g.device.device.config()))-1, data)
			g.device.Read(WindowSize-1, data)
		}
		if g.read(regStatus)&driverOK == 0 {
			t.Error("a write of another size was taken")
		}
	})
}

// A state goes on in another device, and one that nobody could have saved is refused.
func TestState(t *testing.T) {
	g := newDisk(t, make([]byte, sector))
	g.start()
	g.request(requestFlush, 0, 0)
	g.request(requestFlush, 0, 0)
	s := g.device.Save()
	other := NewDisk(guestmem.New(g.memory), content{bytes.NewReader(make([]byte, sector))}, func() {})
	if err := other.Restore(s); err != nil {
		t.Fatal(err)
	}
	g.device = other
	if g.request(requestFlush, 0, 0); g.memory[buffers+16] != answerOK {
		t.Error("it does not go on")
	}
	if done, _ := g.served(0); done != 3 {
		t.Errorf("served %d", done)
	}
	for what, spoil := range map[string]func(*State){
		"size":     func(s *State) { s.Queues[0].Size = 0x10000 },
		"place":    func(s *State) { s.Queues[0].Served = memorySize },
		"features": func(s *State) { s.DriverFeatures |= 1 << 40 },
	} {
		bad := s
		spoil(&bad)
		if err := other.Restore(bad); err == nil {
			t.Errorf("%s: it is taken", what)
		}
	}
}

// FuzzGuest has a guest do anything to a device that it can: write to its registers and to
// all of its memory. What the device touches is the guest's memory and nothing else, or
// this program ends.
func FuzzGuest(f *testing.F) {
	f.Add([]byte("a"), uint8(0))
	f.Add(bytes.Repeat([]byte{8, 0, 0, 0, 0x70}, 50), uint8(1))
	f.Add([]byte{1, 0x50, 0, 0, 0, 0, 2, 0, 0x20, 1, 0}, uint8(2))
	f.Add([]byte{3, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, uint8(3))
	f.Fuzz(func(t *testing.T, script []byte, which uint8) {
		var g *guest
		var v *Vsock
		switch which % 4 {
		case 0:
			g = newDisk(t, make([]byte, 8*sector))
		case 1:
			g = newGuest(t, NewEntropy)
		case 2:
			g = newGuest(t, func(m *guestmem.Memory, interrupt func()) *Transport {
				v = NewVsock(m, 3, interrupt)
				return v.Transport
			})
			defer func() { g.write(regStatus, 0) }()
		case 3:
			g = newGuest(t, func(m *guestmem.Memory, interrupt func()) *Transport {
				return NewWritableDisk(m, make(store, 8*sector), interrupt)
			})
		}
		g.start()
		if v != nil {
			_ = v.Connect(nowhere{}, 1024, func(uint32) []byte { return nil })
		}
		in := bytes.NewReader(script)
		for range 200 {
			var step struct {
				What  uint8
				At    uint16
				Value uint32
			}
			if binary.Read(in, binary.LittleEndian, &step) != nil {
				return
			}
			switch step.What % 4 {
			case 0:
				g.write(uint64(step.At), step.Value)
			case 1:
				g.notify(int(step.At % 4))
			case 2: // into the queues, near where they are
				binary.LittleEndian.PutUint32(g.memory[0x1000+int(step.At)%0xc000:], step.Value)
			case 3:
				g.offer(int(step.At%maxQueues), uint16(step.Value))
			}
		}
	})
}

type nowhere struct{}

func (nowhere) Read([]byte) (int, error)    { return 0, io.EOF }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) Close() error                { return nil }
func (nowhere) CloseWrite() error           { return nil }

// FuzzState has a device go on from a state that anybody may have made.
func FuzzState(f *testing.F) {
	g := newDisk(f, make([]byte, sector))
	g.start()
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, g.device.Save()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes(), []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, text, memory []byte) {
		var s State
		if binary.Read(bytes.NewReader(text), binary.LittleEndian, &s) != nil {
			return
		}
		m := alignedBytes(memorySize)
		copy(m[0x1000:], memory)
		for _, device := range []interface {
			Restore(State) error
			Again()
		}{
			NewDisk(guestmem.New(m), content{bytes.NewReader(make([]byte, sector))}, func() {}),
			NewEntropy(guestmem.New(m), func() {}),
			NewVsock(guestmem.New(m), 3, func() {}),
		} {
			if device.Restore(s) == nil {
				device.Again()
			}
		}
	})
}
