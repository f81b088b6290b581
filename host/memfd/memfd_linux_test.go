package memfd

import (
	"fmt"
	"os"
	"testing"
)

func TestCreate(t *testing.T) {
	file, err := Create("test", []byte("one "), []byte("two"))
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
