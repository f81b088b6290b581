package launch

import (
	"fmt"
	"os"
	"testing"

	"aether/internal/host/spawn"
)

func TestSealedFile(t *testing.T) {
	file, err := SealedFile("test", []byte("one "), []byte("two"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", file.Fd())); string(text) != "one two" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := file.WriteAt([]byte("x"), 0); err == nil {
		t.Error("it can be changed")
	}
	if err := file.Truncate(0); err == nil {
		t.Error("it can be emptied")
	}
}

func TestMemoryFile(t *testing.T) {
	file, err := MemoryFile("test", 8)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte("x"), 7); err != nil {
		t.Fatal(err)
	}
	if err := spawn.Seal(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.WriteAt([]byte("y"), 0); err == nil {
		t.Error("opened once more, it can be changed")
	}
}

// A sealed file can be changed by nobody, also not by who made it.
func TestSeal(t *testing.T) {
	file, err := MemoryFile("memory", 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for range 2 {
		if err := spawn.Seal(t.Context(), file); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := file.WriteAt([]byte{1}, 0); err == nil {
		t.Error("it was written to")
	}
	shared, err := Reopen(file)
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	plain, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := spawn.Seal(t.Context(), plain); err == nil {
		t.Error("a file that cannot be sealed is taken for sealed")
	}
}
