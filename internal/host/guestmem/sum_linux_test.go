package guestmem

import "testing"

// TestSum: a checksum does not depend on holes, and changes with what is where.
func TestSum(t *testing.T) {
	const size = 100*pageSize + 7
	file := memoryFile(t, size)
	seen := map[uint32]string{}
	want := func(what string, known bool) {
		t.Helper()
		sum, err := Sum(file)
		if other, ok := seen[sum]; err != nil || ok != known {
			t.Errorf("%s: %08x, which is that of %q, %v", what, sum, other, err)
		}
		seen[sum] = what
	}
	write := func(at int64, bytes ...byte) {
		t.Helper()
		if _, err := file.WriteAt(bytes, at); err != nil {
			t.Fatal(err)
		}
	}
	want("nothing", false)
	write(20*pageSize+1, 0)
	want("a page of zeros", true)
	write(20*pageSize+1, 5)
	want("something", false)
	write(50*pageSize, make([]byte, 3*pageSize)...)
	want("something, and zeros", true)
	write(20*pageSize+1, 0)
	write(21*pageSize+1, 5)
	want("the same elsewhere", false)
	write(size-1, 1)
	want("and at the end", false)
	write(size-1, 0)
	want("and not at the end", true)
	write(0, 1)
	want("and at the beginning", false)
}
