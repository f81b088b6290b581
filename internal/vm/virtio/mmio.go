package virtio

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"aether/internal/host/guestmem"
)

// WindowSize is how much of the guest's addresses a device takes.
const WindowSize = 0x200

// NotifyRegister is where a guest writes the number of a queue that has something new.
const NotifyRegister = 0x050

// Registers of virtio-mmio, version 2.
const (
	regMagic           = 0x000
	regVersion         = 0x004
	regDeviceID        = 0x008
	regVendor          = 0x00c
	regDeviceFeatures  = 0x010
	regDeviceSelect    = 0x014
	regDriverFeatures  = 0x020
	regDriverSelect    = 0x024
	regQueueSelect     = 0x030
	regQueueMax        = 0x034
	regQueueSize       = 0x038
	regQueueReady      = 0x044
	regInterruptStatus = 0x060
	regInterruptAck    = 0x064
	regStatus          = 0x070
	regDescriptorsLow  = 0x080
	regDescriptorsHigh = 0x084
	regAvailableLow    = 0x090
	regAvailableHigh   = 0x094
	regServedLow       = 0x0a0
	regServedHigh      = 0x0a4
	regSharedLow       = 0x0b0
	regSharedBaseHigh  = 0x0bc
	regConfigVersion   = 0x0fc
	regConfig          = 0x100
)

// Bits of the status.
const (
	acknowledged = 1
	driver       = 2
	driverOK     = 4
	featuresOK   = 8
	needsReset   = 64
	failed       = 128
)

// Bits of the interrupt status.
const (
	queueInterrupt  = 1
	configInterrupt = 2
)

// featureVersion1 is that of every device that is no legacy.
const featureVersion1 = 1 << 32

// device is what is behind the registers. Its methods are called one at a time.
type device interface {
	id() uint32
	features() uint64
	// queues is how many there are.
	queues() int
	// config is what the guest can read of it.
	config() []byte
	// serve does what there is to do in a queue, up to as much as it holds: the guest sends
	// another notification for buffers that it adds later.
	serve(n int, q []*queue) error
	// reset forgets what the guest has begun.
	reset()
}

// maxQueues is the most that a device of ours has.
const maxQueues = 3

// Transport is a device with its registers.
type Transport struct {
	memory *guestmem.Memory
	// interrupt tells the guest that the interrupt status has changed.
	interrupt func()
	pending   atomic.Uint32 // the interrupt status, of which no work is waited for

	mu     sync.Mutex
	device device
	s      State
	active []*queue // from DRIVER_OK on
}

// State is what a device is saved as: what the guest has set, and how far its queues are.
// The lock is held while it is saved or restored.
type State struct {
	Status                     uint32
	DeviceSelect, DriverSelect uint32
	QueueSelect                uint32
	DriverFeatures             uint64
	Queues                     [maxQueues]geometry
	Next, Done                 [maxQueues]uint16 // of the queues
	Pending                    uint32
	LastPort                   uint32 // of a vsock
}

// Save gives the state of the device.
func (t *Transport) Save() State {
	s := t.s
	for n, q := range t.active {
		if q != nil {
			s.Next[n], s.Done[n] = q.next, q.done
		}
	}
	s.Pending = t.pending.Load()
	return s
}

// Restore gives the device a state, which may have been made by anybody.
func (t *Transport) Restore(s State) error {
	t.s = s
	t.pending.Store(s.Pending)
	if s.Status&(driverOK|needsReset) != driverOK {
		return nil
	}
	if s.DriverFeatures&^t.offered() != 0 {
		return errFlags
	}
	t.activate()
	if t.active == nil {
		return errPlace
	}
	for n, q := range t.active {
		if q != nil {
			q.next, q.done = s.Next[n], s.Done[n]
		}
	}
	return nil
}

// Again does all that there may be to do since the state was saved, and interrupts: how
// often the guest was told, and told us, is no part of it.
func (t *Transport) Again() {
	for n := range t.Queues() {
		t.Notify(uint32(n))
	}
	t.interrupt()
}

func newTransport(m *guestmem.Memory, d device, interrupt func()) *Transport {
	return &Transport{memory: m, device: d, interrupt: interrupt}
}

// Queues is how many queues there are to be notified of.
func (t *Transport) Queues() int { return t.device.queues() }

// Lock keeps the device from touching the guest's memory until Unlock.
func (t *Transport) Lock() { t.mu.Lock() }

// Unlock lets it go on.
func (t *Transport) Unlock() { t.mu.Unlock() }

// Read fills data with what the guest reads at an offset.
func (t *Transport) Read(offset uint64, data []byte) {
	clear(data)
	if offset >= regConfig {
		config := t.device.config()
		if at := offset - regConfig; at < uint64(len(config)) {
			copy(data, config[at:])
		}
		return
	}
	if len(data) == 4 && offset%4 == 0 {
		binary.LittleEndian.PutUint32(data, t.read(offset))
	}
}

func (t *Transport) read(offset uint64) uint32 {
	const magic, version, vendor = 0x74726976, 2, 0x68746541
	switch offset {
	case regMagic:
		return magic
	case regVersion:
		return version
	case regDeviceID:
		return t.device.id()
	case regVendor:
		return vendor
	case regInterruptStatus:
		return t.pending.Load()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case offset == regDeviceFeatures:
		return half(t.offered(), t.s.DeviceSelect)
	case offset == regStatus:
		return t.s.Status
	case offset >= regSharedLow && offset <= regSharedBaseHigh:
		return ^uint32(0) // there is no shared memory
	case t.s.QueueSelect >= uint32(t.device.queues()):
		return 0
	case offset == regQueueMax:
		return maxQueue
	case offset == regQueueReady:
		return t.s.Queues[t.s.QueueSelect].Ready
	}
	return 0
}

func (t *Transport) offered() uint64 { return t.device.features() | featureVersion1 }

// half is one of the two words of features.
func half(features uint64, which uint32) uint32 {
	switch which {
	case 0:
		return uint32(features)
	case 1:
		return uint32(features >> 32)
	}
	return 0
}

// Write takes what the guest writes at an offset. Nothing of ours can be configured, and
// registers are four bytes.
func (t *Transport) Write(offset uint64, data []byte) {
	if len(data) != 4 || offset%4 != 0 || offset >= regConfig {
		return
	}
	value := binary.LittleEndian.Uint32(data)
	switch offset {
	case regInterruptAck:
		t.pending.And(^value)
		return
	case NotifyRegister:
		t.Notify(value)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.write(offset, value)
}

func (t *Transport) write(offset uint64, value uint32) {
	switch offset {
	case regDeviceSelect:
		t.s.DeviceSelect = value
	case regDriverSelect:
		t.s.DriverSelect = value
	case regQueueSelect:
		t.s.QueueSelect = value
	case regDriverFeatures:
		t.accept(value)
	case regStatus:
		t.setStatus(value)
	default:
		t.place(offset, value)
	}
}

// accept takes features, between DRIVER and FEATURES_OK.
func (t *Transport) accept(value uint32) {
	if t.s.Status&(driver|featuresOK) != driver {
		return
	}
	switch t.s.DriverSelect {
	case 0:
		t.s.DriverFeatures = t.s.DriverFeatures&^(1<<32-1) | uint64(value)
	case 1:
		t.s.DriverFeatures = t.s.DriverFeatures&(1<<32-1) | uint64(value)<<32
	}
}

// place takes where a queue is, between FEATURES_OK and DRIVER_OK, and as long as the
// queue is not ready.
func (t *Transport) place(offset uint64, value uint32) {
	if t.s.Status&(featuresOK|driverOK) != featuresOK || t.s.QueueSelect >= uint32(t.device.queues()) {
		return
	}
	g := &t.s.Queues[t.s.QueueSelect]
	if offset == regQueueReady {
		g.Ready = value & 1
		return
	}
	if g.Ready != 0 {
		return
	}
	switch offset {
	case regQueueSize:
		g.Size = value // all of it, before it is made shorter: 0x10000 is no size
	case regDescriptorsLow:
		setLow(&g.Descriptors, value)
	case regDescriptorsHigh:
		setHigh(&g.Descriptors, value)
	case regAvailableLow:
		setLow(&g.Available, value)
	case regAvailableHigh:
		setHigh(&g.Available, value)
	case regServedLow:
		setLow(&g.Served, value)
	case regServedHigh:
		setHigh(&g.Served, value)
	}
}

func setLow(to *uint64, value uint32)  { *to = *to&^(1<<32-1) | uint64(value) }
func setHigh(to *uint64, value uint32) { *to = *to&(1<<32-1) | uint64(value)<<32 }

// setStatus adds bits in the order that they have, or resets by zero.
func (t *Transport) setStatus(value uint32) {
	if value == 0 {
		t.reset()
		return
	}
	old := t.s.Status
	added := value &^ old
	if old&^value&^needsReset != 0 || added&^(acknowledged|driver|featuresOK|driverOK|failed) != 0 {
		return // bits are never taken away
	}
	if added&featuresOK != 0 && (value&driver == 0 || t.s.DriverFeatures&^t.offered() != 0 || t.s.DriverFeatures&featureVersion1 == 0) {
		added &^= featuresOK
	}
	t.s.Status |= added
	if added&driverOK != 0 {
		if t.s.Status&featuresOK == 0 {
			t.s.Status &^= driverOK
			return
		}
		t.activate()
	}
}

// activate takes the queues as they are now. What the guest says later changes nothing.
func (t *Transport) activate() {
	active := make([]*queue, t.device.queues())
	for n := range active {
		if t.s.Queues[n].Ready == 0 {
			continue // which is never notified of
		}
		q, err := newQueue(t.memory, t.s.Queues[n])
		if err != nil {
			t.fail()
			return
		}
		active[n] = q
	}
	t.active = active
}

func (t *Transport) reset() {
	t.s, t.active = State{}, nil
	t.pending.Store(0)
	t.device.reset()
}

// fail has the device be of no use until it is reset.
func (t *Transport) fail() {
	t.s.Status |= needsReset
	t.active = nil
	t.device.reset()
	t.raise(configInterrupt)
}

// raise sets the status before the guest is told to read it.
func (t *Transport) raise(why uint32) {
	t.pending.Or(why)
	t.interrupt()
}

// Notify does what a queue has to be done, and never more than a queue holds: one whose
// parts lie upon each other would have more for ever.
func (t *Transport) Notify(n uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n >= uint32(len(t.active)) || t.active[n] == nil {
		return
	}
	before := t.doneAll()
	if err := t.device.serve(int(n), t.active); err != nil {
		t.fail()
		return
	}
	t.tell(before)
}

func (t *Transport) doneAll() (done [maxQueues]uint16) {
	for i, q := range t.active {
		if q != nil {
			done[i] = q.done
		}
	}
	return done
}

// tell interrupts if a queue has served something since, of which the guest wants to know.
func (t *Transport) tell(before [maxQueues]uint16) {
	for i, q := range t.active {
		if q != nil && q.done != before[i] && !q.unwanted() {
			t.raise(queueInterrupt)
			return
		}
	}
}
