package pty

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPair(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("this host has no terminals: %v", err)
	}
	defer master.Close()
	slave, err := Open(master)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()

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
