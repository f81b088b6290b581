package neighbourtest

import (
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"aether/internal/host/guestinit"
)

// spareThreads are kept at all times: a flood of processes in its sandbox must not end
// this program.
const spareThreads = 4

// onThread runs fn on a thread of its own, which stays until what it holds is let go
// of: signals that wait for a thread and the keys of one end with it.
func (h *held) onThread(fn func() error) error {
	did, end, task := make(chan error), make(chan struct{}), ""
	go func() {
		runtime.LockOSThread() // for good, so that the thread ends
		task = fmt.Sprint("/proc/self/task/", unix.Gettid())
		did <- fn()
		<-end
	}()
	h.later(func() {
		close(end)
		awaitGone(task)
		guestinit.MakeThreads(spareThreads)
	})
	return <-did
}

// awaitGone waits for the end of a thread, which takes a moment.
func awaitGone(task string) {
	for range 1000 {
		if _, err := os.Stat(task); err != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

const (
	waitingSignal = 45
	siQueue       = -1 // SI_QUEUE: it was sent with a value, so that each is kept
)

// signalInfo is struct siginfo of a signal that was sent with a value.
type signalInfo struct {
	signal, errno, code, _ int32
	_                      [112]byte
}

// sendSelf sends a signal to this thread, which does not take it.
func sendSelf() error {
	info := signalInfo{signal: waitingSignal, code: siQueue}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(unix.Getpid()), uintptr(unix.Gettid()), waitingSignal, uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func blockSignal() error {
	var set unix.Sigset_t
	set.Val[(waitingSignal-1)/64] = 1 << ((waitingSignal - 1) % 64)
	return unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
}

func floodSignals(h *held, _ string) error {
	return h.onThread(func() error {
		if err := blockSignal(); err != nil {
			return err
		}
		return h.flood(200_000, func(int) error { return sendSelf() })
	})
}

func meetSignals(string) error {
	var h held
	defer h.free()
	return h.onThread(func() error {
		if err := blockSignal(); err != nil {
			return err
		}
		return sendSelf()
	})
}

// threadKeyring is KEY_SPEC_THREAD_KEYRING.
const threadKeyring = -1

func floodKeys(h *held, name string) error {
	return h.onThread(func() error {
		return h.flood(256, func(i int) error { return addKey(fmt.Sprint(name, i)) })
	})
}

func meetKeys(name string) error {
	var h held
	defer h.free()
	return h.onThread(func() error { return addKey(name) })
}

func addKey(name string) error {
	_, err := unix.AddKey("user", name, []byte("x"), threadKeyring)
	return err
}
