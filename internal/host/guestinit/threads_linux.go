package guestinit

import (
	"runtime"
	"sync"
)

// MakeThreads makes threads, all at once, that the runtime keeps for later: a Go program
// that needs one more and cannot have it, because the limit on processes is used up, ends.
func MakeThreads(count int) {
	var made sync.WaitGroup
	made.Add(count)
	release := make(chan struct{})
	for range count {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			made.Done()
			<-release
		}()
	}
	made.Wait()
	close(release)
}
