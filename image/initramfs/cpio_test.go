package initramfs

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// entry is what a kernel would read of an archive.
type entry struct {
	name    string
	mode    uint64
	device  string
	content string
}

// parse reads archives that follow each other as the kernel's unpacker does.
func parse(t *testing.T, b []byte) (list []entry) {
	t.Helper()
	for at := 0; at < len(b); {
		if b[at] == 0 { // padding between archives
			at++
			continue
		}
		if at%4 != 0 || string(b[at:at+6]) != "070701" {
			t.Fatalf("no header at %d: %q", at, b[at:min(at+6, len(b))])
		}
		field := func(i int) uint64 {
			n, err := strconv.ParseUint(string(b[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		size, nameSize := int(field(6)), int(field(11))
		name := string(b[at+110 : at+110+nameSize-1])
		data := (at + 110 + nameSize + 3) &^ 3
		if name != trailer {
			list = append(list, entry{name, field(1), fmt.Sprintf("%d:%d", field(9), field(10)), string(b[data : data+size])})
		}
		at = (data + size + 3) &^ 3
	}
	return list
}

func TestArchive(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	w.File("/a/b/file", 0o640, []byte("odd"))
	w.File("a/b/../other", 0o600, nil)
	w.File("../../out", 0o600, []byte("x"))
	w.Symlink("b/file", "a/link")
	w.Device("dev/console", 0o600, 5, 1)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range parse(t, out.Bytes()) {
		got = append(got, fmt.Sprintf("%s %o %s %s", e.name, e.mode, e.device, e.content))
	}
	want := []string{
		"a 40755 0:0 ", "a/b 40755 0:0 ", "a/b/file 100640 0:0 odd", "a/other 100600 0:0 ", "out 100600 0:0 x",
		"a/link 120777 0:0 b/file", "dev 40755 0:0 ", "dev/console 20600 5:1 ",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if out.Len()%512 != 0 {
		t.Errorf("%d bytes: another archive could not follow", out.Len())
	}
}

// An independent reader of the format agrees.
func TestCpioReadsTheArchive(t *testing.T) {
	archive, err := Config("deep/aether.json", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cpio", "-t", "--quiet")
	cmd.Stdin = bytes.NewReader(archive)
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("cpio is not installed")
	}
	if err != nil || string(out) != "deep\ndeep/aether.json\n" {
		t.Errorf("%q, %v", out, err)
	}
}

type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errors.New("full")
	}
	return len(b), nil
}

func TestWriteErrorsStay(t *testing.T) {
	w := NewWriter(&failing{left: 200})
	w.File("a", 0o600, make([]byte, 100))
	w.File("b", 0o600, nil)
	if err := w.Close(); err == nil || err.Error() != "full" {
		t.Errorf("a failed write ends with %v", err)
	}
}
