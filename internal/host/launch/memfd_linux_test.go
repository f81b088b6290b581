package launch

import (
	"fmt"
	"os"
	"testing"
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
	if err := Seal(t.Context(), file); err != nil {
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
