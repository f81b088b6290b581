package aethervm

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"aether/driver/vmm"
	"aether/internal/host/launch"
	"aether/sandbox"
)

// answering is a monitor whose process answers each line so.
func answering(t *testing.T, answer func(net.Conn, string)) vmm.Monitor {
	t.Helper()
	ours, theirs, err := launch.SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(theirs)
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	go func() {
		defer conn.Close()
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			answer(conn, lines.Text())
		}
	}()
	m := newMonitor(func(context.Context) (net.Conn, error) { return ours, nil })
	t.Cleanup(m.Close)
	return m
}

func TestTold(t *testing.T) {
	told := make(chan string, 10)
	m := answering(t, func(c net.Conn, line string) {
		told <- line
		_, _ = c.Write([]byte("ok\n")) // the call fails if this does
	})
	state, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	files := vmm.BootFiles{KernelArgs: words, Root: state, Memory: state, Kernel: state, Initramfs: state, Writable: []*os.File{state, state}, Longest: 7}
	for _, err := range []error{m.Hello(t.Context()), m.(vmm.Booter).BootFrom(t.Context(), vmm.Hardware{MemoryMiB: 160, CPUs: 2}, files), m.Pause(t.Context()), m.Save(t.Context(), vmm.State{File: state, Pages: state}),
		m.Resume(t.Context()), m.Load(t.Context(), vmm.State{File: state, Root: state, Longest: 9})} {
		if err != nil {
			t.Error(err)
		}
	}
	close(told)
	var got []string
	for line := range told {
		got = append(got, line)
	}
	if want := []string{"hello", "disk", "boot 7 160 2 " + words, "pause", "save", "resume", "load 9"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLateAnswer: a call that was given up leaves the connection, with which the process would
// end, and the answers of later calls as they are.
func TestLateAnswer(t *testing.T) {
	state, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	saving, saved := make(chan struct{}), make(chan struct{})
	m := answering(t, func(c net.Conn, line string) {
		if line == "save" {
			close(saving)
			<-saved
		}
		answer := "ok\n"
		if line == "save" {
			answer = "it failed\n"
		}
		_, _ = c.Write([]byte(answer)) // the call fails if this does
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-saving; cancel() }()
	if err := errors.Join(m.Hello(t.Context()), m.Pause(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := m.Save(ctx, vmm.State{File: state, Pages: state}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	close(saved)
	if err := m.Resume(t.Context()); err != nil {
		t.Errorf("after a call that was given up: %v", err)
	}
}

// TestFork: what it says of its files is read as numbers, and nothing else is.
func TestFork(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for answer, want := range map[string]*vmm.Copied{
		"ok 1500 0 2":             {Kept: []int{0, 2}, Pause: 1500},
		"ok 7":                    {Pause: 7},
		"ok -1 0":                 nil,
		"ok 1 x":                  nil,
		"ok 99999999999999999999": nil,
		"no":                      nil,
	} {
		m := answering(t, func(c net.Conn, _ string) { c.Write([]byte(answer + "\n")) })
		if err := m.Hello(t.Context()); err == nil {
			t.Errorf("%q greets", answer)
		}
		got, err := m.(vmm.Forker).Fork(t.Context(), vmm.Copying{State: null, Layer: null, Pages: null})
		if (err == nil) != (want != nil) || want != nil && (got.Pause != want.Pause || !slices.Equal(got.Kept, want.Kept)) {
			t.Errorf("%q: %+v, %v", answer, got, err)
		}
	}
}

// A process that a guest has taken over may say anything. Each call fails, with something
// that can be printed.
func TestHostileAnswers(t *testing.T) {
	for what, answer := range map[string]func(net.Conn, string){
		"a refusal": func(c net.Conn, _ string) { c.Write([]byte("no\x1b[2J\n")) },
		"garbage":   func(c net.Conn, _ string) { c.Write([]byte("\x00\xff\n")) },
		"no end":    func(c net.Conn, _ string) { c.Write([]byte(strings.Repeat("x", maxAnswer+1))) },
		"its end":   func(c net.Conn, _ string) { c.Close() },
		"silence":   func(net.Conn, string) {},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			err := answering(t, answer).Hello(ctx)
			if err == nil || len(err.Error()) > 2<<10 || strings.ContainsAny(err.Error(), "\x1b\x00") {
				t.Errorf("%v", err)
			}
		})
	}
	if err := newMonitor(nil).Pause(t.Context()); err == nil {
		t.Error("one that was never met was paused")
	}
}

func TestArguments(t *testing.T) {
	has := vmm.Descriptors{vmm.Socket: 3, vmm.Vsock: 4, vmm.KVM: 5}
	got := strings.Join(arguments(vmm.Hardware{MemoryMiB: 256, CPUs: 2}, has), " ")
	if want := "-control 3 -guest 4 -kvm 5"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestReadVersion(t *testing.T) {
	for said, want := range map[string]string{"aether-vmm 1\n": "1", "Firecracker v1.14.2\n": "", "aether-vmm \x1b[2J": "", "aether-vmm 1\n2": "", "": ""} {
		got, err := readVersion(said)
		if got != want || (err == nil) != (want != "") || err != nil && sandbox.ClassOf(err) != sandbox.Unavailable {
			t.Errorf("%q: %q, %v", said, got, err)
		}
	}
}
