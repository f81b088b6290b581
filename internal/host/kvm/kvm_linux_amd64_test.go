package kvm

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	"aether/internal/host/guestmem"

	"golang.org/x/sys/unix"
)

// The kernel has sizes in the numbers of its requests.
func TestLayouts(t *testing.T) {
	var cpu CPUState
	var vm VMState
	for name, size := range map[string][2]uintptr{
		"cpuid":     {unsafe.Sizeof(cpuidEntry{}), 40},
		"registers": {unsafe.Sizeof(systemRegisters{}), 312},
		"msr":       {unsafe.Sizeof(MSR{}), 16},
		"table":     {unsafe.Offsetof(msrTable{}.entries), 8},
		"sregs":     {unsafe.Sizeof(cpu.Sregs), getSregs >> 16 & 0x3fff},
		"xsave":     {unsafe.Sizeof(cpu.XSAVE), getXSAVE >> 16 & 0x3fff},
		"events":    {unsafe.Sizeof(cpu.Events), getEvents >> 16 & 0x3fff},
		"irqchip":   {unsafe.Sizeof(vm.IRQChip[0]), getIRQChip >> 16 & 0x3fff},
		"pit":       {unsafe.Sizeof(vm.PIT), getPIT >> 16 & 0x3fff},
		"clock":     {unsafe.Sizeof(vm.Clock), getClock >> 16 & 0x3fff},
	} {
		if size[0] != size[1] {
			t.Errorf("%s: %d bytes, want %d", name, size[0], size[1])
		}
	}
}

// States are kept as they are in memory.
func TestStatesHaveNoGaps(t *testing.T) {
	cpu, vm := new(CPUState), new(VMState)
	for _, c := range []struct {
		bytes []byte
		of    any
	}{{cpu.Bytes(), cpu}, {vm.Bytes(), vm}} {
		if want := binary.Size(c.of); len(c.bytes) != want {
			t.Errorf("%T: %d bytes, of which %d are its own", c.of, len(c.bytes), want)
		}
	}
	cpu.MSR[1].Value = 7
	if at := unsafe.Offsetof(cpu.MSR) + 16 + 8; cpu.Bytes()[at] != 7 {
		t.Error("the bytes are others than the state's")
	}
}

func TestOrder(t *testing.T) {
	got := order([]uint32{msrTSCDeadline, 0x174, msrClock, msrTSC, 0xc0000080})
	if want := []uint32{msrTSC, 0x174, 0xc0000080, msrClock, msrTSCDeadline}; !slices.Equal(got, want) {
		t.Errorf("%#x, want %#x", got, want)
	}
	list := []MSR{{Index: msrTSC, Value: 7}, {Index: msrTSCDeadline}}
	if mendDeadline(list); list[1].Value != 7 {
		t.Errorf("a timer that has gone off is %d", list[1].Value)
	}
}

// Guests cannot make machines of their own: nothing of those would be saved.
func TestHide(t *testing.T) {
	list := []cpuidEntry{{function: 1, ecx: ^uint32(0)}, {function: 0xa, eax: 0x07300402}, {function: 0x80000001, ecx: ^uint32(0), edx: 1}, {function: 0x8000000a, eax: 1, edx: 9}}
	hide(list)
	want := []cpuidEntry{{function: 1, ecx: ^uint32(1<<5 | 1<<15)}, {function: 0xa}, {function: 0x80000001, ecx: ^uint32(1 << 2), edx: 1}, {function: 0x8000000a}}
	if !slices.Equal(list, want) {
		t.Errorf("%+v", list)
	}
}

const entry = 0x1000

// newGuest is a machine that runs a few instructions.
func newGuest(t *testing.T, code []byte) (*VM, *CPU, *guestmem.Memory) {
	t.Helper()
	file, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no KVM here: %v", err)
	}
	t.Cleanup(func() { file.Close() })
	s, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.NewVM()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	bytes, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	copy(bytes[entry:], code)
	m := guestmem.New(bytes)
	if err := v.SetMemory(m, true); err != nil {
		t.Fatal(err)
	}
	c, err := v.NewCPU(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.StartFlat(entry, 0x1234); err != nil {
		t.Fatal(err)
	}
	return v, c, m
}

// A guest writes to a port, to a device, to an address that is an event and to its memory, of which
// the kernel takes note, and reads from a device.
func TestGuest(t *testing.T) {
	v, c, m := newGuest(t, []byte{
		0xb0, 'A', // mov al, 'A'
		0xe6, 0x80, // out 0x80, al
		0x89, 0x1d, 0, 0, 0, 0xd0, // mov [0xd0000000], ebx
		0xc7, 0x05, 0x50, 0, 0, 0xd0, 1, 0, 0, 0, // mov dword [0xd0000050], 1
		0xa1, 4, 0, 0, 0xd0, // mov eax, [0xd0000004]
		0xa3, 0, 0x20, 0, 0, // mov [0x2000], eax
		0xe6, 0x81, // out 0x81, al
	})
	event, err := v.Notification(0xd0000050, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer event.Close()
	next := func(want Exit) Exit {
		t.Helper()
		for {
			err := c.Run()
			if errors.Is(err, ErrInterrupted) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		got := c.Exit()
		if got.Reason != want.Reason || got.Write != want.Write || got.Address != want.Address || got.Size != want.Size {
			t.Fatalf("%+v, want %+v", got, want)
		}
		return got
	}
	if got := next(Exit{Reason: IO, Write: true, Address: 0x80, Size: 1}); got.Data[0] != 'A' {
		t.Errorf("it wrote %q", got.Data)
	}
	if got := next(Exit{Reason: MMIO, Write: true, Address: 0xd0000000, Size: 4}); got.Data[0] != 0x34 || got.Data[1] != 0x12 {
		t.Errorf("it wrote %x", got.Data)
	}
	read := next(Exit{Reason: MMIO, Address: 0xd0000004, Size: 4})
	copy(read.Data, []byte{1, 2, 3, 4})
	next(Exit{Reason: IO, Write: true, Address: 0x81, Size: 1})
	if err := event.Wait(); err != nil {
		t.Error(err)
	}
	if got := guestmem.Load32(m.Bytes()[0x2000:]); got != 0x04030201 {
		t.Errorf("it read %#x", got)
	}
	for _, want := range []guestmem.Pages{{1 << 2, 0, 0, 0}, {0, 0, 0, 0}} { // of 1 MiB
		got := guestmem.NewPages(int64(len(m.Bytes())))
		if err := v.Written(m, got); err != nil || !slices.Equal(got, want) {
			t.Errorf("it has written the pages %x, %v, want %x", got, err, want)
		}
	}
}

// A guest that never leaves is kicked out, and its state goes on in another machine.
func TestKick(t *testing.T) {
	v, c, _ := newGuest(t, []byte{
		0xff, 0x05, 0, 0x20, 0, 0, // inc dword [0x2000]
		0xeb, 0xf8, // jmp back
	})
	left := make(chan error)
	ready := make(chan struct{})
	go func() {
		c.Bind()
		close(ready)
		for {
			if err := c.Run(); !errors.Is(err, ErrInterrupted) || atomic.LoadUint32(c.word()) != 0 {
				left <- err
				return
			}
		}
	}()
	<-ready
	if err := c.Kick(); err != nil {
		t.Fatal(err)
	}
	if err := <-left; !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	var cpu CPUState
	var vm VMState
	if err := errors.Join(c.Save(&cpu), v.Save(&vm)); err != nil {
		t.Fatal(err)
	}
	other, child, _ := newGuest(t, nil)
	if err := errors.Join(other.Restore(&vm), child.Restore(&cpu)); err != nil {
		t.Fatal(err)
	}
	var again CPUState
	if err := child.Save(&again); err != nil || again.Regs != cpu.Regs || again.Sregs != cpu.Sregs {
		t.Errorf("it goes on elsewhere: %v", err)
	}
}
