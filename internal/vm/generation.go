package vm

import (
	"crypto/rand"

	"aether/internal/host/guestmem"
)

// The generation of a machine is a number in its memory that no other machine has, nor a copy
// of it. A kernel that knows it is told by ACPI where it is, and by an interrupt that it has
// changed; it draws its random numbers anew then, before anything else of it runs on.

const (
	// generationAt is on a page of its own, in what the memory map leaves out, behind the
	// tables.
	generationAt   = 0xff000
	generationSize = 16
	// eventLine is of the device by which ACPI tells of events.
	eventLine = 23
)

// generationNodes describe the number, and the device that tells of it.
func generationNodes() [][]byte {
	const hasChanged = 0x80
	return [][]byte{
		deviceNode("VGEN", named("_HID", text("AETHVGEN")), named("_CID", list(text("VMGENCTR"), text("VM_Gen_Counter"))), named("_DDN", text("VM_Gen_Counter")),
			named("ADDR", list(long(generationAt), long(0)))),
		deviceNode("GED_", named("_HID", text("ACPI0013")), named("_UID", number(0)), resources(interrupt(eventLine)),
			method("_EVT", 1, notification("_SB_", "VGEN", hasChanged))),
	}
}

// renewGeneration makes the machine another one than it was, or was copied from.
func renewGeneration(m *guestmem.Memory) error {
	id, ok := m.Slice(generationAt, generationSize)
	if !ok {
		return errSmall
	}
	_, _ = rand.Read(id) // never fails
	return nil
}
