package disk

import (
	"encoding/binary"
	"slices"
)

// direntSize is the fixed part of a directory entry.
const direntSize = 12

// kinds are the format's numbers for file types, by the kernel's mode.
var kinds = map[uint32]byte{0o100000: 1, 0o040000: 2, 0o020000: 3, 0o060000: 4, 0o010000: 5, 0o140000: 6, 0o120000: 7}

// dirSize needs the names alone, so that it is known before any number is.
func dirSize(n *node) int64 {
	size, last := int64(0), 0
	for _, block := range packNames(append(n.names(), ".", "..")) {
		size += blockSize
		last = 0
		for _, name := range block {
			last += direntSize + len(name)
		}
	}
	return size - blockSize + int64(last)
}

// packNames divides the names of a directory into blocks. They are in the order
// of their bytes throughout: the kernel searches by halves.
func packNames(names []string) [][]string {
	slices.Sort(names)
	var blocks [][]string
	var block []string
	used := 0
	for _, name := range names {
		need := direntSize + len(name)
		if used+need > blockSize {
			blocks = append(blocks, block)
			block, used = nil, 0
		}
		block = append(block, name)
		used += need
	}
	return append(blocks, block)
}

// dirContent is a directory as it lies on the disk.
func dirContent(n, parent *node) []byte {
	var b []byte
	for _, block := range packNames(append(n.names(), ".", "..")) {
		b = append(b, make([]byte, roundUp(int64(len(b)), blockSize)-int64(len(b)))...)
		b = append(b, dirBlock(n, parent, block)...)
	}
	return b
}

// dirBlock is the fixed parts of all entries and then all names.
func dirBlock(n, parent *node, names []string) []byte {
	var heads, texts []byte
	for _, name := range names {
		to := n.find(name, parent)
		heads = binary.LittleEndian.AppendUint64(heads, to.number())
		heads = binary.LittleEndian.AppendUint16(heads, uint16(len(names)*direntSize+len(texts)))
		heads = append(heads, kinds[to.Kind()], 0)
		texts = append(texts, name...)
	}
	return append(heads, texts...)
}

func (n *node) find(name string, parent *node) *node {
	switch name {
	case ".":
		return n
	case "..":
		return parent
	}
	return n.children[name]
}
