package checkpoint

import (
	"strings"
	"testing"
)

const smaps = `55d0a0000000-55d0a0001000 r--p 00001000 fd:00 1234                       /usr/bin/a b (deleted)
Size:                  4 kB
VmFlags: rd mr mw me sd 
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
Size:                132 kB
VmFlags: rd wr mr mw me gd ac 
7f0000000000-7f0000002000 rw-s 00000000 00:01 7                          /dev/zero (deleted)
`

func TestParseAreas(t *testing.T) {
	areas, err := parseMaps(strings.NewReader(smaps))
	if err != nil || len(areas) != 3 {
		t.Fatalf("%d areas, %v", len(areas), err)
	}
	text, stack, shared := areas[0], areas[1], areas[2]
	if text.Name != "/usr/bin/a b (deleted)" || text.Offset != 0x1000 || text.Inode != 1234 || !text.Read || text.Write || text.Shared {
		t.Errorf("the text reads %+v", text)
	}
	if !stack.has("gd") || stack.Size() != 0x21000 || stack.file() || !stack.Write {
		t.Errorf("the stack reads %+v", stack)
	}
	if !shared.Shared || !shared.file() {
		t.Errorf("the shared area reads %+v", shared)
	}
}

func TestParseAreasRefuses(t *testing.T) {
	for name, line := range map[string]string{
		"backwards":  "2000-1000 r--p 0 0:0 0",
		"unaligned":  "1000-2001 r--p 0 0:0 0",
		"no inode":   "1000-2000 r--p 0 0:0",
		"bad inode":  "1000-2000 r--p 0 0:0 x",
		"bad perms":  "1000-2000 r-- 0 0:0 0",
		"no range":   "1000 r--p 0 0:0 0",
		"bad offset": "1000-2000 r--p z 0:0 0",
	} {
		if areas, err := parseMaps(strings.NewReader(line)); err == nil {
			t.Errorf("%s: taken as %v", name, areas)
		}
	}
}

func FuzzParseAreas(f *testing.F) {
	f.Add(smaps)
	f.Fuzz(func(t *testing.T, text string) {
		areas, err := parseMaps(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, a := range areas {
			if a.End <= a.Start {
				t.Fatalf("an area of no size: %+v", a)
			}
		}
	})
}
