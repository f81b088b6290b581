package vm

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/internal/host/launch"
	"aether/internal/vm/vmtest"
)

// patience is how long a guest may take, on a host that is busy.
const patience = 2 * time.Minute

// newNeighbour is a machine that counts, beside those that do what they must not. It gives
// what wants it to be undisturbed.
func newNeighbour(t *testing.T, exe *os.File) (undisturbed func(*testing.T)) {
	t.Helper()
	count := []byte{0xff, 0x05, 0, 0, 0x30, 0, 0xeb, 0xf8} // inc dword [0x300000], for ever
	p := startVMM(t, exe, vmtest.Kernel(count))
	t.Cleanup(func() {
		p.control.Close()
		p.ended("")
	})
	return func(t *testing.T) {
		t.Helper()
		p.tell("hello", nil, "ok")
		first := counted(t, []*os.File{p.memory})
		for deadline := time.Now().Add(patience); counted(t, []*os.File{p.memory}) == first; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the neighbour counts no more")
			}
		}
	}
}

// startHostile starts a guest that is waited for with patience.
func startHostile(t *testing.T, exe *os.File, code *vmtest.Code, writable ...*os.File) *vmmProcess {
	t.Helper()
	p := startVMM(t, exe, code.Kernel(), writable...)
	if err := errors.Join(p.said.SetReadDeadline(time.Now().Add(patience)), p.control.SetDeadline(time.Now().Add(patience))); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestHostileGuests: whatever a guest does, its devices serve it again once they are reset, or
// its own process ends and says why; one that never ends can be paused, forked and ended. What
// the process needs for itself stays little, and its neighbour does not notice.
func TestHostileGuests(t *testing.T) {
	exe := buildVMM(t)
	undisturbed := newNeighbour(t, exe)
	t.Run("battery", func(t *testing.T) {
		code, said := vmtest.Battery(vmtest.Writable)
		upper, _ := newLayer(t)
		p := startHostile(t, exe, code, memoryFile(t, testDisk), upper)
		p.ended(said)
		if told := p.told(); !strings.Contains(told, ErrOff.Error()) {
			t.Errorf("it says of its end %q", told)
		}
		undisturbed(t)
	})
	for name, do := range map[string]func(*vmtest.Code){
		"triple fault":              (*vmtest.Code).TripleFault,
		"code that is nowhere":      func(c *vmtest.Code) { c.Jump(0xb0000000) },
		"code in a device":          func(c *vmtest.Code) { c.Jump(0xd0000000) },
		"a fault without a handler": func(c *vmtest.Code) { c.Raw(0x0f, 0x0b) }, // ud2
	} {
		t.Run(name, func(t *testing.T) {
			code := &vmtest.Code{}
			do(code)
			p := startHostile(t, exe, code)
			if text, err := io.ReadAll(p.said); err != nil || len(text) > 0 {
				t.Fatalf("it said %q, %v", text, err)
			}
			status, err := p.child.Wait()
			if told := p.told(); err != nil || status.Signal != 0 || !strings.HasPrefix(told, "aether-vmm: vm: ") || strings.Count(told, "\n") != 1 {
				t.Errorf("%+v, %v: it says of its end %q", status, err, told)
			}
			undisturbed(t)
		})
	}
	for name, code := range map[string]*vmtest.Code{"spin": spinning((*vmtest.Code).Spin), "halt": spinning((*vmtest.Code).Halt),
		"console flood": vmtest.ConsoleFlood(), "vsock flood": vmtest.VsockFlood()} {
		t.Run(name, func(t *testing.T) {
			p := startHostile(t, exe, code)
			heard := make(chan int64, 1)
			go func() {
				n, _ := io.Copy(io.Discard, p.said) // its end is all that counts
				heard <- n
			}()
			for range 5 {
				p.tell("pause", nil, "ok")
				p.tell("resume", nil, "ok")
				time.Sleep(20 * time.Millisecond)
			}
			p.fork([]*os.File{p.memory})
			p.small()
			p.control.Close()
			if status, err := p.child.Wait(); err != nil || status.Code != 0 || status.Signal != 0 {
				t.Errorf("%+v, %v: %s", status, err, p.told())
			}
			t.Logf("it said %d bytes", <-heard)
			undisturbed(t)
		})
	}
}

func spinning(how func(*vmtest.Code)) *vmtest.Code {
	code := &vmtest.Code{}
	how(code)
	return code
}

// small wants the process to hold little but the guest's memory.
func (p *vmmProcess) small() {
	p.t.Helper()
	const most = 48 << 10 // KiB
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.child.Pid()) + "/status")
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	kib, err := strconv.Atoi(strings.Fields(rest + " none")[0])
	if err != nil || kib > most {
		p.t.Errorf("it holds %d KiB of its own, %v", kib, err)
	}
}

// connect makes a connection to a port that the guest has.
func (p *vmmProcess) connect() *net.UnixConn {
	p.t.Helper()
	ours, theirs, err := launch.SocketPair()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { ours.Close() })
	_, _, err = p.guest.WriteMsgUnix([]byte{0}, launch.Rights(theirs), nil)
	if err = errors.Join(err, theirs.Close(), ours.SetDeadline(time.Now().Add(patience))); err != nil {
		p.t.Fatal(err)
	}
	if _, err := io.WriteString(ours, "CONNECT 1024\n"); err != nil {
		p.t.Fatal(err)
	}
	return ours
}

// TestHostileConnections: a guest that sends more than there is room for loses its connection,
// and of one that has room for everything and takes nothing, little is held.
func TestHostileConnections(t *testing.T) {
	exe := buildVMM(t)
	const most = 1 << 20
	t.Run("overrun", func(t *testing.T) {
		var got []byte
		var err error
		// A busy host may end the machine before its monitor has passed anything on.
		for tries := 10; len(got) == 0 && err == nil && tries > 0; tries-- {
			p := startHostile(t, exe, vmtest.Overrun())
			host := p.connect()
			p.ended("ended\n") // before the host has read anything
			got, err = io.ReadAll(host)
		}
		if err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") || len(got) >= most || !strings.HasPrefix(string(got), "OK ") {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
	t.Run("unread", func(t *testing.T) {
		p := startHostile(t, exe, vmtest.Unread())
		host := p.connect()
		if line, err := bufio.NewReader(host).ReadString('\n'); err != nil || !strings.HasPrefix(line, "OK ") {
			t.Fatalf("%q, %v", line, err)
		}
		if err := host.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := host.Write(make([]byte, 2*most)); !errors.Is(err, os.ErrDeadlineExceeded) || n >= most {
			t.Errorf("%d bytes are taken, %v", n, err)
		}
		p.small()
		p.control.Close()
		p.ended("")
	})
}
