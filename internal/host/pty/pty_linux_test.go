package pty

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// pair are the two ends of a terminal.
func pair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("this host has no terminals: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if slave, err = Open(master); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

func TestPair(t *testing.T) {
	master, slave := pair(t)

	if err := SetSize(master, 123, 45); err != nil {
		t.Fatal(err)
	}
	size, err := unix.IoctlGetWinsize(int(slave.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col != 123 || size.Row != 45 {
		t.Errorf("the other end sees %+v, %v", size, err)
	}

	if _, err := slave.WriteString("out"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	if n, err := master.Read(buf); err != nil || string(buf[:n]) != "out" {
		t.Errorf("master read %q, %v", buf[:n], err)
	}
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if slave, err := Open(f); err == nil {
		slave.Close()
		t.Error("/dev/null was taken for a terminal")
	}
}

// TestHide: what is typed is read and not shown, until it is to be shown again.
func TestHide(t *testing.T) {
	master, slave := pair(t)
	show, err := Hide(int(slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	typed := func(text string) {
		t.Helper()
		if _, err := master.WriteString(text + "\r"); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 16)
		if n, err := slave.Read(buf); err != nil || string(buf[:n]) != text+"\n" {
			t.Errorf("read %q, %v", buf[:n], err)
		}
	}
	typed("hush")
	if err := show(); err != nil {
		t.Fatal(err)
	}
	typed("said")
	buf := make([]byte, 16)
	if n, err := master.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "said") { // which would come after hush
		t.Errorf("shown is %q, %v", buf[:n], err)
	}
	if show, err := Hide(-1); err == nil {
		t.Errorf("no terminal is hidden: %v", show())
	}
}
