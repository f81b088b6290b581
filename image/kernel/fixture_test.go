package kernel

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, name string, content []byte) string {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(name), 0o755))
	check(t, os.WriteFile(name, content, 0o644))
	return name
}

// loaderFor wraps a packed kernel as a bzImage of a release.
func loaderFor(release string, packed []byte) []byte {
	const setup = 1
	b := make([]byte, (setup+1)*sector)
	b[setupSectors] = setup
	copy(b[bootMagic:], "HdrS")
	le := binary.LittleEndian
	le.PutUint16(b[protocol:], 0x20f)
	le.PutUint16(b[versionText:], 0x300-sector)
	copy(b[0x300:], release+" (builder) #1\x00")
	le.PutUint32(b[payloadOffset:], 16)
	le.PutUint32(b[payloadLength:], uint32(len(packed)+4))
	b = append(b, make([]byte, 16)...)
	return append(append(b, packed...), 1, 2, 3, 4)
}

// module is the least file that is one: an ELF header and a section that says
// what it needs.
func module(info string) []byte {
	names := "\x00.modinfo\x00.shstrtab\x00"
	const headSize, sectionSize = 64, 64
	var b bytes.Buffer
	head := elf.Header64{Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1,
		Shoff: uint64(headSize + len(info) + len(names)), Ehsize: headSize, Shentsize: sectionSize, Shnum: 3, Shstrndx: 2}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	for _, part := range []any{head, []byte(info), []byte(names),
		elf.Section64{},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: headSize, Size: uint64(len(info))},
		elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(headSize + len(info)), Size: uint64(len(names))},
	} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			panic(err) // the parts have fixed sizes
		}
	}
	return b.Bytes()
}
