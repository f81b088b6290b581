package vm

import (
	"encoding/binary"
	"fmt"

	"aether/internal/host/guestmem"
)

// The kernel finds its processors and devices by ACPI alone, of the reduced kind: Debian's
// has neither MP tables nor virtio devices on its command line compiled in.

const (
	// acpiStart is below 1 MiB, in what the memory map leaves out.
	acpiStart = 0xe0000

	serialPort = 0x3f8
	serialLine = 4

	// The ports by which a guest switches itself off, and resets itself.
	sleepControl = 0x600
	sleepStatus  = 0x601
	resetPort    = 0x64
	resetValue   = 0xfe

	sleepOff = 5 // the type of the state S5

	localAPIC = 0xfee00000
	ioAPIC    = 0xfec00000
)

// Where the devices of virtio are.
const (
	windowsStart = 0xd0000000
	windowStride = 0x1000
	firstLine    = 16
)

// differentiated describes the devices.
func differentiated(devices int) []byte {
	nodes := [][]byte{deviceNode("COM1", named("_HID", []byte{0x0c, 0x41, 0xd0, 0x05, 0x01}), // PNP0501
		named("_UID", number(0)), resources(ports(serialPort, 8), interrupt(serialLine)))}
	for n := range devices {
		nodes = append(nodes, deviceNode(fmt.Sprintf("VR%02d", n), named("_HID", text("LNRO0005")), named("_UID", number(byte(n))),
			named("_CCA", []byte{1}), resources(window(uint32(windowsStart+n*windowStride), windowStride), interrupt(uint32(firstLine+n)))))
	}
	nodes = append(nodes, generationNodes()...)
	return append(scope("_SB_", nodes...), named("_S5_", list(number(sleepOff), number(sleepOff), number(0), number(0)))...)
}

// fixed is the table of what every machine has.
func fixed(devices uint64) []byte {
	const (
		size, head                      = 276, 36
		noVGA, noCMOS                   = 1 << 2, 1 << 5
		wbinvd, noPower, noSleep        = 1, 1 << 4, 1 << 5
		canReset, reducedHardware       = 1 << 10, 1 << 20
		bootFlags, flags, resetRegister = 109 - head, 112 - head, 116 - head
		minor, table, control, status   = 131 - head, 140 - head, 244 - head, 256 - head
	)
	b := make([]byte, size-head)
	binary.LittleEndian.PutUint16(b[bootFlags:], noVGA|noCMOS)
	binary.LittleEndian.PutUint32(b[flags:], wbinvd|noPower|noSleep|canReset|reducedHardware)
	copy(b[resetRegister:], register(resetPort))
	b[resetRegister+12] = resetValue
	b[minor] = 3
	binary.LittleEndian.PutUint64(b[table:], devices)
	copy(b[control:], register(sleepControl))
	copy(b[status:], register(sleepStatus))
	return b
}

// register is a port of one byte.
func register(port uint64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{1, 8, 0, 1}, port)
}

// controllers lists the processors and the interrupt controller.
func controllers(cpus int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, localAPIC)
	b = append(b, 0, 0, 0, 0)
	for n := range cpus {
		b = append(b, 0, 8, byte(n), byte(n), 1, 0, 0, 0)
	}
	b = binary.LittleEndian.AppendUint32(append(b, 1, 12, byte(cpus), 0), ioAPIC)
	return append(b, 0, 0, 0, 0)
}

func checksum(b []byte) (sum byte) {
	for _, x := range b {
		sum += x
	}
	return -sum
}

// described is a table with its head.
func described(signature string, revision byte, body []byte) []byte {
	t := make([]byte, 36, 36+len(body))
	copy(t, signature)
	binary.LittleEndian.PutUint32(t[4:], uint32(36+len(body)))
	t[8] = revision
	copy(t[10:], "AETHERMACHINE ")
	t[24] = 1
	copy(t[28:], "AETH")
	t[32] = 1
	t = append(t, body...)
	t[9] = checksum(t)
	return t
}

// writeACPI writes the tables, and gives where the first is.
func writeACPI(m *guestmem.Memory, cpus, devices int) (uint64, error) {
	const size = generationAt - acpiStart
	area, ok := m.Slice(acpiStart, size)
	if !ok {
		return 0, errSmall
	}
	const align = 64
	at := uint64(align)
	put := func(table []byte) uint64 {
		here := at
		copy(area[here:], table)
		at = (here + uint64(len(table)) + align - 1) &^ (align - 1)
		return acpiStart + here
	}
	dsdt := put(described("DSDT", 2, differentiated(devices)))
	list := binary.LittleEndian.AppendUint64(nil, put(described("FACP", 6, fixed(dsdt))))
	list = binary.LittleEndian.AppendUint64(list, put(described("APIC", 5, controllers(cpus))))
	extended := put(described("XSDT", 1, list))
	root := make([]byte, 36)
	copy(root, "RSD PTR ")
	copy(root[9:], "AETHER")
	root[15] = 2
	binary.LittleEndian.PutUint32(root[20:], 36)
	binary.LittleEndian.PutUint64(root[24:], extended)
	root[8] = checksum(root[:20])
	root[32] = checksum(root)
	copy(area, root)
	return acpiStart, nil
}
