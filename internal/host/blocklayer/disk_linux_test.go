package blocklayer

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

const testSize = 64 * Block

func layer(t *testing.T) (write, read *os.File) {
	t.Helper()
	write, read, err := New(t.TempDir(), testSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { write.Close(); read.Close() })
	return write, read
}

func file(t *testing.T, content []byte) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return f
}

func again(t *testing.T, files ...*os.File) (list []*os.File) {
	t.Helper()
	for _, f := range files {
		opened, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { opened.Close() })
		list = append(list, opened)
	}
	return list
}

func wantContent(t *testing.T, what string, d interface {
	ReadAt([]byte, int64) (int, error)
}, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := d.ReadAt(got, 0); err != nil || n != len(want) || !bytes.Equal(got, want) {
		t.Fatalf("%s: it is another, %v", what, err)
	}
}

// TestGenerations: each disk goes on from the one before and has what all of them have written,
// and what it writes itself no other sees. There are never too many layers, and what all hold
// can be put into one file.
func TestGenerations(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	content := make([]byte, testSize)
	for n := range 40 * Block { // the rest is zero
		content[n] = byte(random.Uint32())
	}
	base := file(t, content)
	write, read := layer(t)
	d, err := Open(again(t, base)[0], nil, write)
	if err != nil {
		t.Fatal(err)
	}
	var layers []*os.File // as who makes the disks knows them
	for generation := range MaxLayers + 6 {
		for range 8 {
			at, size := random.IntN(testSize), 1+random.IntN(3*Block)
			piece := make([]byte, min(size, testSize-at))
			if generation%3 > 0 { // and else zeros, over what is none
				for n := range piece {
					piece[n] = byte(random.Uint32())
				}
			}
			if n, err := d.WriteAt(piece, int64(at)); err != nil || n != len(piece) {
				t.Fatal(err)
			}
			copy(content[at:], piece)
		}
		wantContent(t, "what was written", d, content)
		next, nextRead := layer(t)
		if err := Unchanging(read); !errors.Is(err, unix.EAGAIN) {
			t.Fatalf("the uppermost cannot be written to: %v", err)
		}
		if err := d.Prepare(next); err != nil {
			t.Fatal(err)
		}
		d.Freeze(again(t, read)[0], next)
		if err := Unchanging(read); err != nil {
			t.Fatal(err)
		}
		if len(layers) >= MaxLayers {
			layers = nil
		}
		layers = append(layers, read)
		wantContent(t, "the source", d, content)
		if _, err := d.WriteAt([]byte("source"), int64(random.IntN(testSize-6))); err != nil {
			t.Fatal(err)
		}
		merged := file(t, nil)
		if err := Merge(merged, base, again(t, layers...)); err != nil {
			t.Fatal(err)
		}
		wantContent(t, "in one file", merged, content)
		own, ownRead := layer(t)
		child, err := Open(again(t, base)[0], again(t, layers...), own)
		if err != nil {
			t.Fatal(err)
		}
		wantContent(t, "the child", child, content)
		if generation%2 == 0 { // the child goes on, else the source
			d, read = child, ownRead
			continue
		}
		content = make([]byte, testSize)
		if _, err := d.ReadAt(content, 0); err != nil {
			t.Fatal(err)
		}
		read = nextRead
	}
}

func TestNoDisk(t *testing.T) {
	write, read := layer(t)
	base := file(t, make([]byte, testSize))
	for what, open := range map[string]func() (*Disk, error){
		"a base that is no disk": func() (*Disk, error) { return Open(file(t, make([]byte, 100)), nil, write) },
		"nothing":                func() (*Disk, error) { return Open(file(t, nil), nil, write) },
		"a layer that is none":   func() (*Disk, error) { return Open(base, []*os.File{file(t, []byte("x"))}, write) },
		"an upper that is none":  func() (*Disk, error) { return Open(base, nil, base) },
		"too many": func() (*Disk, error) {
			return Open(base, append(make([]*os.File, MaxLayers), read), write)
		},
	} {
		if _, err := open(); !errors.Is(err, ErrFiles) {
			t.Errorf("%s: %v", what, err)
		}
	}
	d, err := Open(base, nil, write)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{-1, testSize, testSize - 1, 1 << 62} {
		if _, err := d.ReadAt(make([]byte, 2), at); err == nil {
			t.Errorf("read at %d", at)
		}
		if _, err := d.WriteAt(make([]byte, 2), at); err == nil {
			t.Errorf("written at %d", at)
		}
	}
	if err := d.Prepare(base); !errors.Is(err, ErrFiles) {
		t.Errorf("frozen with another's: %v", err)
	}
}
