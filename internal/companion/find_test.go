package companion

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/sandbox"
)

// program writes the head of a program with one part.
func program(t *testing.T, name string, part elf.ProgType) string {
	t.Helper()
	head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(head.Ident[:], elf.ELFMAG+string([]byte{byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}))
	var file bytes.Buffer
	for _, part := range []any{head, elf.Prog64{Type: uint32(part)}} {
		if err := binary.Write(&file, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, file.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestFind: a companion is found by its variable, and one that would need libraries is
// refused by that reason.
func TestFind(t *testing.T) {
	static, loaded := program(t, "static", elf.PT_LOAD), program(t, "loaded", elf.PT_INTERP)
	p := Program{Name: "aether-nowhere", Variable: "AETHER_TEST_COMPANION", For: "try"}
	for _, c := range []struct{ named, refused string }{
		{"", "neither beside"}, {filepath.Dir(static), "no program"}, {"/no/such", "no program"}, {static, ""}, {loaded, "linked against libraries"},
	} {
		t.Setenv(p.Variable, c.named)
		found, err := p.Find()
		if c.refused == "" && (err != nil || found != c.named) {
			t.Errorf("%q: %q, %v", c.named, found, err)
		}
		if c.refused != "" && (sandbox.ClassOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%q: %q, %v", c.named, found, err)
		}
	}
}
