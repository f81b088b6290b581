package features

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

func device(t *testing.T) int {
	t.Helper()
	file, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no usable /dev/kvm: %v", err)
	}
	t.Cleanup(func() { file.Close() })
	return int(file.Fd())
}

func unchecked([]byte) error { return nil }

// The trial machine itself is sound: what every processor can do works in it, so
// that a failing trial is the host's fault.
func TestPlainGuestHalts(t *testing.T) {
	program := []byte{
		0xb8, 42, 0, 0, 0, // mov eax, 42
		0x48, 0x89, 0x04, 0x25, 0x00, 0x70, 0, 0, // mov [0x7000], rax
		0xf4, // hlt
	}
	err := runGuest(context.Background(), device(t), program, func(memory []byte) error {
		if got := binary.LittleEndian.Uint64(memory[guestResults:]); got != 42 {
			return fmt.Errorf("stored %d", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestHangingGuestIsEnded(t *testing.T) {
	start := time.Now()
	err := runGuest(context.Background(), device(t), []byte{0xeb, 0xfe}, unchecked) // jmp to itself
	if took := time.Since(start); !errors.Is(err, errHangs) || took > time.Minute {
		t.Errorf("after %v: %v", took, err)
	}
}

func TestWrongResultsAreFound(t *testing.T) {
	memory := make([]byte, guestSize)
	for _, want := range guestExpects {
		binary.LittleEndian.PutUint64(memory[want.address:], want.value)
	}
	if err := checkGuest(memory); err != nil {
		t.Error(err)
	}
	for _, want := range guestExpects {
		memory[want.address]++
		if checkGuest(memory) == nil {
			t.Errorf("a wrong %s was not found", want.instruction)
		}
		memory[want.address]--
	}
}
