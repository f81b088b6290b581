package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// onFirstThread runs fn on the thread that the program began with, unless somebody keeps
// that: so many threads are held while it is looked for.
func onFirstThread(most int, fn func()) (ran bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		switch {
		case unix.Gettid() == unix.Getpid():
			fn()
			ran = true
		case most > 0:
			ran = onFirstThread(most-1, fn)
		}
	}()
	<-done
	return ran
}

var errKept = errors.New("the first thread does something else")

// TestOpenWhileACellIsNamed: who opens a host while the first thread visits the name of a
// cell takes its own name for the host's, and not that.
func TestOpenWhileACellIsNamed(t *testing.T) {
	cell := bootCell(t)
	if cell.identity.Single {
		t.Skip("an ordinary user's cells are named by children")
	}
	own, err := os.Readlink("/proc/thread-self/ns/uts")
	if err != nil {
		t.Fatal(err)
	}
	visiting, opened := make(chan error), make(chan struct{})
	visit := func() {
		err := cell.init.Near(firstFd, func(pidfd int) error { return unix.Setns(pidfd, unix.CLONE_NEWUTS) })
		visiting <- err
		<-opened
		if err == nil {
			err = unix.Setns(int(cell.host.uts.Fd()), unix.CLONE_NEWUTS)
		}
		visiting <- err
	}
	go func() {
		if !onFirstThread(100, visit) {
			visiting <- errKept
		}
	}()
	if err := <-visiting; err != nil {
		t.Fatal(err)
	}
	other := openHost(t)
	close(opened)
	if err := <-visiting; err != nil {
		t.Fatal(err)
	}
	if found, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", other.uts.Fd())); found != own || err != nil {
		t.Errorf("the name of the host is in %s (%v), and not in %s", found, err, own)
	}
}
