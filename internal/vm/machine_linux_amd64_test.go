package vm

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"aether/internal/host/guestmem"
	"aether/internal/host/launch"
	"aether/internal/vm/vmtest"
)

const kernelAt = vmtest.KernelAt

// kernelOf is a kernel of a few instructions.
func kernelOf(code []byte) *bytes.Reader { return bytes.NewReader(vmtest.Kernel(code)) }

func slicesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// printed is code that writes text to the serial port.
func printed(text string) (code []byte) {
	code = []byte{0x66, 0xba, 0xf8, 0x03} // mov dx, 0x3f8
	for _, c := range []byte(text) {
		code = append(code, 0xb0, c, 0xee) // mov al, c; out dx, al
	}
	return code
}

var switchOff = []byte{0x66, 0xba, 0x00, 0x06, 0xb0, sleepOff<<2 | 1<<5, 0xee, 0xf4}

func newMachine(t *testing.T, memory *guestmem.Memory, console *bytes.Buffer) *Machine {
	t.Helper()
	device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no KVM here: %v", err)
	}
	t.Cleanup(func() { device.Close() })
	m, err := New(Config{KVM: device, Memory: memory, CPUs: 1, Disk: bytes.NewReader(nil), Console: console})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newMemory(t *testing.T) *guestmem.Memory {
	t.Helper()
	const size = 4 << 20
	file, err := launch.MemoryFile("memory", size)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m, err := guestmem.Map(file, 0, size, false)
	if err != nil {
		t.Fatal(err)
	}
	return m.Memory
}

// TestBoot: a kernel is entered as PVH says, talks, and switches the machine off.
func TestBoot(t *testing.T) {
	for what, c := range map[string]struct {
		code []byte
		why  error
	}{
		"off":   {switchOff, ErrOff},
		"reset": {[]byte{0xb0, resetValue, 0xe6, resetPort, 0xf4}, ErrReset},
		// lidt of zeros; int3. What KVM makes of it differs.
		"triple fault": {[]byte{0x0f, 0x01, 0x1d, 0, 0, 0x30, 0, 0xcc}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			var console bytes.Buffer
			m := newMachine(t, newMemory(t), &console)
			code := slicesOf(printed("hello\n"), []byte{0x81, 0x3b, 0x78, 0xc5, 0x6e, 0x33, 0x75, 0x04}, // cmp dword [ebx], magic; jne over
				[]byte{0xb0, 'P', 0xee, 0x90}, c.code)
			if err := m.Boot(kernelOf(code), bytes.NewReader([]byte("initramfs")), "words"); err != nil {
				t.Fatal(err)
			}
			m.Start()
			if err := m.Wait(); err == nil || c.why != nil && !errors.Is(err, c.why) || console.String() != "hello\nP" {
				t.Errorf("%v; it said %q", err, console.String())
			}
		})
	}
}

// TestSaveAndRestore: a machine that counts is stopped and saved, and goes on in another.
func TestSaveAndRestore(t *testing.T) {
	memory := newMemory(t)
	var console bytes.Buffer
	m := newMachine(t, memory, &console)
	count := []byte{0xff, 0x05, 0, 0, 0x30, 0} // inc dword [0x300000]
	code := slicesOf(count, []byte{0x80, 0x3d, 0x10, 0, 0x30, 0, 0, 0x74, 0xf1}, printed("on\n"), switchOff)
	if err := m.Boot(kernelOf(code), bytes.NewReader(nil), ""); err != nil {
		t.Fatal(err)
	}
	m.Start()
	if err := m.Pause(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "state"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := m.Save(file, []guestmem.Extent{{Size: int64(len(memory.Bytes()))}}, nil); err != nil {
		t.Fatal(err)
	}
	m.Resume()

	saved, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := saved.Map(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mapped.Bytes()[kernelAt:kernelAt+len(code)], code) {
		t.Error("its memory is another")
	}
	child := newMachine(t, mapped.Memory, &console)
	if err := child.Restore(saved); err != nil {
		t.Fatal(err)
	}
	guestmem.Store32(mapped.Bytes()[0x300010:], 1) // in the child's memory alone
	child.Start()
	if err := child.Wait(); !errors.Is(err, ErrOff) || console.String() != "on\n" {
		t.Errorf("%v; it said %q", err, console.String())
	}
	if err := m.Pause(); err != nil {
		t.Errorf("the source has ended: %v", err)
	}
	refuseDamaged(t, file)
}

// refuseDamaged wants no state to be taken of which a byte was changed, or some are missing.
func refuseDamaged(t *testing.T, file *os.File) {
	t.Helper()
	for _, at := range []int64{0, 8, 12, 16, 70, 100, 5000, memoryStart + kernelAt, memoryStart + 0x380000} {
		var old [1]byte
		if _, err := file.ReadAt(old[:], at); err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte{old[0] ^ 0x55}, at); err != nil {
			t.Fatal(err)
		}
		saved, err := Open(file)
		if err == nil {
			_, err = saved.Map(nil, false)
		}
		if want := ErrState; at >= memoryStart && !errors.Is(err, errMemory) || at < memoryStart && at != 8 && !errors.Is(err, want) || err == nil {
			t.Errorf("byte %d: %v", at, err)
		}
		if _, err := file.WriteAt(old[:], at); err != nil {
			t.Fatal(err)
		}
	}
	// Memory that has gone to zero, as on a disk that has lost it.
	if err := errors.Join(file.Truncate(memoryStart+kernelAt), file.Truncate(memoryStart+4<<20)); err != nil {
		t.Fatal(err)
	}
	if saved, err := Open(file); err != nil {
		t.Error(err)
	} else if _, err := saved.Map(nil, false); !errors.Is(err, errMemory) {
		t.Errorf("lost memory: %v", err)
	}
	if err := file.Truncate(memoryStart); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); !errors.Is(err, ErrState) {
		t.Errorf("half a state: %v", err)
	}
}

func TestNoKernel(t *testing.T) {
	memory := newMemory(t)
	for what, kernel := range map[string][]byte{"nothing": nil, "text": []byte("#!/bin/sh\n"), "half": []byte("\x7fELF\x02\x01\x01")} {
		if _, err := load(memory, bytes.NewReader(kernel), bytes.NewReader(nil), "", 1, 3); err == nil {
			t.Errorf("%s: it is taken", what)
		}
	}
	if _, err := load(memory, kernelOf(switchOff), bytes.NewReader(make([]byte, 3<<20)), "", 1, 3); !errors.Is(err, errSmall) {
		t.Errorf("too large an initramfs: %v", err)
	}
	if entry := entryIn([]byte{0xff, 0xff, 0xff, 0xff, 4, 0, 0, 0, 18, 0, 0, 0, 'X'}); entry != 0 {
		t.Errorf("a note that is too long: %#x", entry)
	}
}

// FuzzOpen: no file that anybody may have made is taken for a state and is none.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("aethervm\x01\x00\x00\x00\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := launch.SealedFile("state", text)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := Open(file); err == nil {
			t.Error("it is taken, and has no memory")
		}
		entryIn(text)
	})
}
