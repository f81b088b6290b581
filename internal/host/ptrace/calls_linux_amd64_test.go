package ptrace

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestCalls has a program that sleeps make calls in its own name, one and many. It
// is let go as it was, and sleeps on.
func TestCalls(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid := startSleeper(t)
	for _, careful := range []bool{false, true} {
		thread, err := Seize(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := thread.Await(); err != nil {
			t.Fatal(err)
		}
		thread.Careful = careful
		regs, err := thread.Registers()
		if err != nil {
			t.Fatal(err)
		}
		before := memory(t, pid, textOf(t, pid), 4096)
		if got, err := thread.Call(&regs, regs.Rip-2, unix.SYS_GETPID); err != nil || got != int64(pid) {
			t.Errorf("careful %v: a call gives %d, %v", careful, got, err)
		}
		got := makeCalls(t, thread, &regs, textOf(t, pid), regs.Rsp-8192)
		if want := []int64{int64(pid), int64(os.Getpid()), -int64(unix.EBADF)}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("careful %v: the calls give %v, not %v", careful, got, want)
		}
		if err := thread.Poke(textOf(t, pid), before[:len(Calls)]); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(memory(t, pid, textOf(t, pid), 4096), before) {
			t.Errorf("careful %v: its text is not what it was", careful)
		}
		if err := thread.SetRegisters(&regs); err != nil {
			t.Error(err)
		}
		if err := thread.Detach(); err != nil {
			t.Error(err)
		}
		await(t, pid)
	}
}

// makeCalls has the thread make three calls, of which the last fails, with its stack
// for the memory.
func makeCalls(t *testing.T, thread *Thread, regs *Registers, code, table uint64) (results []int64) {
	t.Helper()
	calls := make([]byte, 3*CallSize)
	PutCall(calls, unix.SYS_GETPID)
	PutCall(calls[CallSize:], unix.SYS_GETPPID)
	PutCall(calls[2*CallSize:], unix.SYS_CLOSE, 1<<30)
	if err := thread.Poke(table, calls); err != nil {
		t.Fatal(err)
	}
	if err := thread.Poke(code, Calls); err != nil {
		t.Fatal(err)
	}
	if err := thread.Begin(regs, code, table, 3); err != nil {
		t.Fatal(err)
	}
	err := thread.Finish(func() (bool, error) {
		return CallResult(memory(t, thread.TID, table+2*CallSize, CallSize)) != NoResult, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	calls = memory(t, thread.TID, table, len(calls))
	for i := range 3 {
		results = append(results, CallResult(calls[i*CallSize:]))
	}
	return results
}

// patience is how long something may take on a machine whose processors others have.
const patience = 2 * time.Minute

// startSleeper starts a program that sleeps, until the test ends.
func startSleeper(t *testing.T) (pid int) {
	t.Helper()
	sleeper := exec.Command("sleep", "3600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sleeper.Process.Kill(); sleeper.Wait() })
	await(t, sleeper.Process.Pid)
	return sleeper.Process.Pid
}

// await waits until the program sleeps in a system call, or sleeps on.
func await(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		if err != nil {
			t.Fatal(err)
		}
		var call int
		fmt.Sscan(string(text), &call)
		if slices.Contains([]int{unix.SYS_CLOCK_NANOSLEEP, unix.SYS_NANOSLEEP, unix.SYS_RESTART_SYSCALL}, call) {
			return
		}
	}
	t.Fatal("it does not sleep")
}

func textOf(t *testing.T, pid int) (at uint64) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, " r-xp ") {
			if _, err := fmt.Sscanf(line, "%x-", &at); err != nil {
				t.Fatal(err)
			}
			return at
		}
	}
	t.Fatal("it has no text")
	return 0
}

func memory(t *testing.T, pid int, at uint64, size int) []byte {
	t.Helper()
	into := make([]byte, size)
	local := []unix.Iovec{{Base: &into[0], Len: uint64(size)}}
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: size}}, 0)
	if err != nil || n != size {
		t.Fatalf("%d bytes at %x: %d, %v", size, at, n, err)
	}
	return into
}
