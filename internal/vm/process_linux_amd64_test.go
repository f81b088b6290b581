package vm

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"aether/internal/host/jail"
	"aether/internal/host/launch"
	"aether/internal/host/spawn"
)

// vmmProcess is aether-vmm in its jail, with its own list of system calls.
type vmmProcess struct {
	t       *testing.T
	child   *spawn.Process
	control *net.UnixConn
	answers *bufio.Reader
	said    *os.File
}

func buildVMM(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "aether-vmm")
	build := exec.Command("go", "build", "-o", path, "aether/cmd/aether-vmm")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	exe, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { exe.Close() })
	return exe
}

func startVMM(t *testing.T, exe *os.File, kernel []byte) *vmmProcess {
	t.Helper()
	device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no KVM here: %v", err)
	}
	defer device.Close()
	p := &vmmProcess{t: t}
	control, controlEnd, err := launch.SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer controlEnd.Close()
	guest, guestEnd, err := launch.SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer guestEnd.Close()
	t.Cleanup(func() { guest.Close() })
	said, console, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	args := []string{"aether-vmm", "-control", "3", "-guest", "4", "-kvm", "5", "-disk", "6", "-memory", "4", "-cpus", "1"}
	files := []*os.File{null, console, os.Stderr, controlEnd, guestEnd, device, null}
	if kernel != nil {
		file, err := launch.SealedFile("kernel", kernel)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		args = append(args, "-kernel", strconv.Itoa(len(files)), "-initramfs", "6")
		files = append(files, file)
	}
	p.control, p.answers, p.said = control, bufio.NewReader(control), said
	if p.child, err = jail.Start(jail.Program{Exe: exe, Args: args, Files: files, ID: 64322, Alone: true}); err != nil {
		t.Fatal(err)
	}
	return p
}

// tell wants what the process is told to be answered so.
func (p *vmmProcess) tell(word string, file *os.File, want string) {
	p.t.Helper()
	p.send(word, file)
	if got, err := p.answers.ReadString('\n'); err != nil || got != want+"\n" {
		p.t.Fatalf("%s: %q, %v", word, got, err)
	}
}

func (p *vmmProcess) send(word string, file *os.File) {
	p.t.Helper()
	var rights []byte
	if file != nil {
		rights = launch.Rights(file)
	}
	if _, _, err := p.control.WriteMsgUnix([]byte(word+"\n"), rights, nil); err != nil {
		p.t.Fatalf("%s: %v", word, err)
	}
}

// ended wants the process to end well, having said something.
func (p *vmmProcess) ended(said string) {
	p.t.Helper()
	text, err := io.ReadAll(p.said)
	if err != nil || string(text) != said {
		p.t.Errorf("it said %q, %v", text, err)
	}
	if status, err := p.child.Wait(); err != nil || status.Code != 0 || status.Signal != 0 {
		p.t.Errorf("it ended with %+v, %v", status, err)
	}
}

// TestProcess: a machine runs, is saved and goes on in processes that can make few system
// calls, and that end with who started them.
func TestProcess(t *testing.T) {
	exe := buildVMM(t)
	code := slicesOf([]byte{0xff, 0x05, 0, 0, 0x30, 0, 0x80, 0x3d, 0x10, 0, 0x30, 0, 0, 0x74, 0xf1}, printed("on\n"), switchOff)
	kernel, err := io.ReadAll(kernelOf(code))
	if err != nil {
		t.Fatal(err)
	}
	source := startVMM(t, exe, kernel)
	state, err := launch.MemoryFile("state", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	source.tell("hello", nil, "ok")
	source.tell("save", state, "the machine is not paused")
	source.tell("load", state, "there is a machine already")
	source.tell("pause", nil, "ok")
	source.tell("pause", nil, "the machine is paused")
	source.tell("save", state, "ok")
	source.tell("resume", nil, "ok")
	source.tell("nonsense", nil, "the machine is not paused")

	child := startVMM(t, exe, nil)
	child.tell("pause", nil, "there is no machine yet")
	child.tell("load", nil, ErrState.Error())
	if _, err := state.WriteAt([]byte{1}, memoryStart+0x300010); err != nil { // by which it knows itself
		t.Fatal(err)
	}
	child.send("load", state) // it may end before it answers
	child.ended("on\n")

	source.control.Close()
	source.ended("")

	if off := startVMM(t, exe, mustRead(kernelOf(slicesOf(printed("one\n"), switchOff)))); off != nil {
		off.ended("one\n")
	}
}

func mustRead(r *bytes.Reader) []byte {
	b := make([]byte, r.Len())
	_, _ = r.ReadAt(b, 0) // all of it is there
	return b
}
