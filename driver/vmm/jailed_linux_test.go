package vmm

import (
	"sync"
	"testing"
	"time"
)

// listener is told of each piece.
type listener chan int

func (l listener) Write(b []byte) (int, error) {
	l <- len(b)
	return len(b), nil
}

// TestConsoleIsHeardUnhurriedly: one who says a byte as soon as the last was heard is not listened
// to more often than all that it says is worth, and nothing of it is lost.
func TestConsoleIsHeardUnhurriedly(t *testing.T) {
	var until sync.WaitGroup
	heard := make(listener)
	w, err := drain(&until, heard)
	if err != nil {
		t.Fatal(err)
	}
	const bytes = 100
	began := time.Now()
	for range bytes {
		if _, err := w.Write([]byte{'\n'}); err != nil {
			t.Fatal(err)
		}
		if n := <-heard; n != 1 {
			t.Fatalf("%d bytes", n)
		}
	}
	if took := time.Since(began); took < (bytes-1)*breath {
		t.Errorf("%d bytes are %d pieces in %v", bytes, bytes, took)
	}
	w.Close()
	until.Wait()
}
