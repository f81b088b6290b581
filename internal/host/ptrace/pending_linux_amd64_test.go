package ptrace

import (
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPendingSignals: all signals that wait are read, however often who reads them is
// interrupted.
func TestPendingSignals(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, err := Seize(startSleeper(t))
	if err == nil {
		err = thread.Await()
	}
	if err != nil {
		t.Fatal(err)
	}
	const count, number = 100, 40
	for range count {
		if err := unix.Kill(thread.TID, number); err != nil {
			t.Fatal(err)
		}
	}
	var interrupting sync.WaitGroup
	reader, over := unix.Gettid(), make(chan struct{})
	interrupting.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				_ = unix.Tgkill(unix.Getpid(), reader, unix.SIGURG) // as Go's scheduler does
			}
		}
	})
	for _, most := range []int{count / 2, count, 2 * count} {
		for range 200 {
			list, err := thread.Pending(true, most)
			if err != nil || len(list) != min(most, count) || list[len(list)-1].Number() != number {
				t.Errorf("of %d signals, %d are read of up to %d: %v", count, len(list), most, err)
				break
			}
		}
	}
	close(over)
	interrupting.Wait()
}
