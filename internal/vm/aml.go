package vm

import (
	"encoding/binary"
	"slices"
)

// The few words of ACPI's machine language that describe devices which are always there.

// measured puts its own length before what it measures.
func measured(content []byte) []byte {
	const short, byteBits = 1 << 6, 4
	if n := len(content) + 1; n < short {
		return append([]byte{byte(n)}, content...)
	}
	n := len(content) + 2
	return append([]byte{1<<6 | byte(n)&(1<<byteBits-1), byte(n >> byteBits)}, content...)
}

func named(name string, value []byte) []byte { return slices.Concat([]byte{0x08}, []byte(name), value) }

func text(s string) []byte { return append(append([]byte{0x0d}, s...), 0) }

func number(n byte) []byte { return []byte{0x0a, n} }

// long is a number of four bytes.
func long(n uint32) []byte { return binary.LittleEndian.AppendUint32([]byte{0x0c}, n) }

// list is a package of values.
func list(elements ...[]byte) []byte {
	return append([]byte{0x12}, measured(append([]byte{byte(len(elements))}, slices.Concat(elements...)...))...)
}

// method is one that does something with so many arguments.
func method(name string, arguments byte, what []byte) []byte {
	return append([]byte{0x14}, measured(slices.Concat([]byte(name), []byte{arguments}, what))...)
}

// notification tells the driver of a device in a scope of something.
func notification(scope, device string, what byte) []byte {
	const root, two = 0x5c, 0x2e
	return slices.Concat([]byte{0x86, root, two}, []byte(scope), []byte(device), number(what))
}

func scope(name string, content ...[]byte) []byte {
	return append([]byte{0x10}, measured(slices.Concat(append([][]byte{[]byte(name)}, content...)...))...)
}

func deviceNode(name string, content ...[]byte) []byte {
	return append([]byte{0x5b, 0x82}, measured(slices.Concat(append([][]byte{[]byte(name)}, content...)...))...)
}

// resources are what a device takes.
func resources(list ...[]byte) []byte {
	all := append(slices.Concat(list...), 0x79, 0) // the end
	return named("_CRS", append([]byte{0x11}, measured(append(number(byte(len(all))), all...))...))
}

// window is memory at an address.
func window(address, size uint32) []byte {
	b := []byte{0x86, 9, 0, 1}
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, address), size)
}

// ports are those of I/O.
func ports(first uint16, count byte) []byte {
	b := binary.LittleEndian.AppendUint16([]byte{0x47, 1}, first)
	return append(binary.LittleEndian.AppendUint16(b, first), 1, count)
}

// interrupt is a line that is the device's own, edge-triggered.
func interrupt(line uint32) []byte {
	const consumer, edge = 1, 2
	return binary.LittleEndian.AppendUint32([]byte{0x89, 6, 0, consumer | edge, 1}, line)
}
