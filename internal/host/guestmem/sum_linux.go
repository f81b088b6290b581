package guestmem

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
)

// Sum is a checksum of memory in a file, against damage: of the pages that are not zero, each with
// its number. So it is the same for copies that have other holes. Nobody else uses the
// descriptor's offset.
func Sum(file *os.File) (sum uint32, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	buffer, data, table := make([]byte, len(zero)), NewData(file), crc32.MakeTable(crc32.Castagnoli)
	for at := int64(0); ; {
		start, end, err := data.From(at)
		if err != nil {
			return 0, err
		}
		if start >= info.Size() {
			return sum, nil
		}
		for at = start / pageSize * pageSize; at < min(end, info.Size()); {
			n, err := file.ReadAt(buffer[:min(int64(len(buffer)), info.Size()-at)], at)
			if err != nil && (err != io.EOF || n == 0) {
				return 0, err
			}
			sum = addPages(sum, table, buffer[:n], at)
			at += int64(n)
		}
	}
}

func addPages(sum uint32, table *crc32.Table, memory []byte, at int64) uint32 {
	for len(memory) > 0 {
		page := memory[:min(pageSize, len(memory))]
		if !bytes.Equal(page, zero[:len(page)]) {
			var number [8]byte
			binary.LittleEndian.PutUint64(number[:], uint64(at/pageSize))
			sum = crc32.Update(crc32.Update(sum, table, number[:]), table, page)
		}
		memory, at = memory[len(page):], at+int64(len(page))
	}
	return sum
}
