package spawn

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAChildThatIsKilledBeforeItsMark(t *testing.T) {
	s := newScript(t)
	self := s.Call(unix.SYS_GETPID)
	self.Into(s.Call(unix.SYS_KILL, 0, uintptr(unix.SIGKILL)), 0)
	started, err := s.Start(0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := started.Announced(); !errors.Is(err, ErrAbandoned) {
		t.Errorf("got %v", err)
	}
	started.Process().Wait()
}

// TestAMakerIsAbandonedAsItsChildIsBorn: the child, which others have stopped,
// must not be waited for until they let it go.
func TestAMakerIsAbandonedAsItsChildIsBorn(t *testing.T) {
	s := newScript(t)
	clone := s.Branch(-1)
	s.Exit()
	s.Land(clone)
	self := s.Call(unix.SYS_GETPID)
	self.Into(s.Call(unix.SYS_KILL, 0, uintptr(unix.SIGSTOP)), 0)
	execute(s, "/bin/true")
	started, err := s.Start(0, -1)
	if err != nil {
		t.Fatal(err)
	}
	for !started.Born() {
		time.Sleep(time.Millisecond)
	}
	atomic.StoreUint32(&s.control().abandoned, 1)
	if err := unix.PidfdSendSignal(started.Pidfd(), unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := started.Await(); !errors.Is(err, ErrAbandoned) {
		t.Errorf("got %v", err)
	}
	started.Process().Wait()
}

func TestABranchWithoutClone3(t *testing.T) {
	s := newScript(t)
	clone := s.BranchFiltered()
	s.Exit()
	s.Land(clone)
	execute(s, "/bin/sh", "-c", "exit 9")
	p, err := startAndAwait(t, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status.Code != 9 {
		t.Errorf("status %+v, err %v", status, err)
	}
}

func TestAClosedThreadRefuses(t *testing.T) {
	thread, err := NewThread(func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	thread.Close()
	if err := thread.Do(func() error { return nil }); err == nil {
		t.Error("a closed thread has worked")
	}
}

// TestBury: of a process that has branched nothing is left once that is asked for, and soon
// if it is not.
func TestBury(t *testing.T) {
	for _, asked := range []bool{true, false} {
		s := newScript(t)
		clone := s.Branch(-1)
		s.Exit()
		s.Land(clone)
		execute(s, "/bin/true")
		runtime.LockOSThread()
		started, err := s.Start(0, -1)
		runtime.UnlockOSThread()
		if err != nil {
			t.Fatal(err)
		}
		p, err := started.Await()
		if err != nil {
			t.Fatal(err)
		}
		// Until it is reaped the number is its own.
		ended := []unix.PollFd{{Fd: int32(started.Pidfd()), Events: unix.POLLIN}}
		n, err := unix.Poll(ended, 60_000)
		for err == unix.EINTR {
			n, err = unix.Poll(ended, 60_000)
		}
		if n != 1 {
			t.Fatalf("it has not ended: %v", err)
		}
		if err := started.Done(); err != nil {
			t.Fatal(err)
		}
		if asked {
			Bury()
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(endingTime) {
			if err := unix.Kill(started.Pid(), 0); errors.Is(err, unix.ESRCH) {
				break
			}
			if asked || time.Now().After(end) {
				t.Fatalf("asked to bury it: %v; it is still there", asked)
			}
		}
		if _, err := p.Wait(); err != nil {
			t.Error(err)
		}
	}
}
