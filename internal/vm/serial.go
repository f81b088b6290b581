package vm

import (
	"bytes"
	"io"
	"sync"
)

// serial is the port of a console that is only written to: a 16550A whose other end says
// nothing.
type serial struct {
	mu   sync.Mutex
	s    serialState
	line func(up bool)
	out  io.Writer
	// said is what has not been written out, as most of a line.
	said []byte
}

// serialState is what the guest has set.
type serialState struct {
	Interrupts, LineControl, ModemControl, Scratch, FIFO, DivisorLow, DivisorHigh uint8
	// Looped is what it has sent to itself, to see what kind of port it has.
	Looped, HasLooped uint8
	// Empty says that it was not told that there is room to write, and Level what the
	// interrupt controller knows of that.
	Empty, Level uint8
}

// Registers, by their distance from the first port.
const (
	serialData = iota
	serialInterrupts
	serialFIFO
	serialLineControl
	serialModemControl
	serialLineStatus
	serialModemStatus
	serialScratch
)

const (
	divisorAccess  = 0x80
	loopback       = 0x10
	wantReceived   = 1
	wantEmpty      = 2
	maxSaid        = 512
	transmitIsFree = 0x60
)

func (u *serial) update() {
	level := uint8(0)
	if u.s.Interrupts&wantReceived != 0 && u.s.HasLooped != 0 || u.s.Interrupts&wantEmpty != 0 && u.s.Empty != 0 {
		level = 1
	}
	if level != u.s.Level {
		u.s.Level = level
		u.line(level != 0)
	}
}

func (u *serial) say(b byte) {
	u.said = append(u.said, b)
	if b == '\n' || len(u.said) >= maxSaid {
		u.flush()
	}
}

// flush writes out what was said. Nobody misses what nobody takes.
func (u *serial) flush() {
	_, _ = u.out.Write(bytes.Clone(u.said))
	u.said = u.said[:0]
}

func (u *serial) write(register uint64, v byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	divisor := u.s.LineControl&divisorAccess != 0
	switch {
	case register == serialData && divisor:
		u.s.DivisorLow = v
	case register == serialInterrupts && divisor:
		u.s.DivisorHigh = v
	case register == serialData && u.s.ModemControl&loopback != 0:
		u.s.Looped, u.s.HasLooped, u.s.Empty = v, 1, 1
	case register == serialData:
		u.say(v)
		u.s.Empty = 1
	case register == serialInterrupts:
		if v&^u.s.Interrupts&wantEmpty != 0 {
			u.s.Empty = 1
		}
		u.s.Interrupts = v & 15
	case register == serialFIFO:
		u.s.FIFO = v
		if v&2 != 0 {
			u.s.HasLooped = 0
		}
	case register == serialLineControl:
		u.s.LineControl = v
	case register == serialModemControl:
		u.s.ModemControl = v
	case register == serialScratch:
		u.s.Scratch = v
	}
	u.update()
}

func (u *serial) read(register uint64) (v byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	defer u.update()
	divisor := u.s.LineControl&divisorAccess != 0
	switch {
	case register == serialData && divisor:
		return u.s.DivisorLow
	case register == serialInterrupts && divisor:
		return u.s.DivisorHigh
	case register == serialData:
		u.s.HasLooped = 0
		return u.s.Looped
	case register == serialInterrupts:
		return u.s.Interrupts
	case register == serialFIFO:
		return u.why()
	case register == serialLineControl:
		return u.s.LineControl
	case register == serialModemControl:
		return u.s.ModemControl
	case register == serialLineStatus:
		return transmitIsFree | u.s.HasLooped
	case register == serialModemStatus:
		return u.modem()
	case register == serialScratch:
		return u.s.Scratch
	}
	return 0
}

// why says what the interrupt was for, and takes note that it is known.
func (u *serial) why() byte {
	v := byte(1)
	switch {
	case u.s.Interrupts&wantReceived != 0 && u.s.HasLooped != 0:
		v = 4
	case u.s.Interrupts&wantEmpty != 0 && u.s.Empty != 0:
		v, u.s.Empty = 2, 0
	}
	if u.s.FIFO&1 != 0 {
		v |= 0xc0
	}
	return v
}

// modem reflects what the guest sets while it listens to itself, and else says that there
// is somebody.
func (u *serial) modem() byte {
	if m := u.s.ModemControl; m&loopback != 0 {
		return m&1<<5 | m&2<<3 | m&4<<4 | m&8<<4
	}
	return 0xb0
}
