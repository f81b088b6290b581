package checkpoint

import (
	"fmt"
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTrySemaphore is what older kernels need; the trial works on every one.
func TestTrySemaphore(t *testing.T) {
	for _, semaphore := range []bool{false, true} {
		for _, count := range []uint64{0, 1, 2, 3, 1000, math.MaxUint64 - 1} {
			for _, nonblock := range []int{0, unix.EFD_NONBLOCK} {
				t.Run(fmt.Sprint(semaphore, " ", count, " ", nonblock), func(t *testing.T) {
					d := Descriptor{Kind: Event, Semaphore: semaphore, Count: count, Flags: nonblock}
					f, err := d.recreate()
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
					got, err := trySemaphore(int(f.Fd()), count)
					if err != nil || got != semaphore {
						t.Errorf("a semaphore: %v, %v", got, err)
					}
					after := (&Tracee{PID: unix.Getpid()})
					seen, err := after.descriptor(int(f.Fd()))
					if err != nil || seen.Count != count {
						t.Errorf("the count is %d, %v", seen.Count, err)
					}
				})
			}
		}
	}
}
