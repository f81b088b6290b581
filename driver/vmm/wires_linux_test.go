package vmm

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"aether/internal/host/cgroup"
)

// A monitor of wires has the descriptors that its command line names, and nobody
// else has the other ends.
func TestWires(t *testing.T) {
	w, err := newWires(false)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	disk := testFile(t, filepath.Join(t.TempDir(), "disk"), "disk")
	if err := w.share(disk, Disk); err != nil {
		t.Fatal(err)
	}
	if err := w.write(Initramfs, []byte("a"), []byte("b")); err != nil {
		t.Fatal(err)
	}
	m := &machine{engine: &engine{system: System{Inherit: func(hw Hardware, has Descriptors) []string {
		return []string{"-c", fmt.Sprintf("cat <&%d; cat /proc/self/fd/%d; echo %d >&%d; pwd >&%d", has[Disk], has[Initramfs], hw.CPUs, has[Socket], has[Port])}
	}}}, hardware: Hardware{CPUs: 7}}
	l := invocation{argv: []string{"/bin/sh"}, attach: cgroup.Attach{Into: -1}}
	w.arrange(m, &l)
	p, err := l.start()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for name, c := range map[string]struct {
		from interface {
			io.Reader
			SetReadDeadline(time.Time) error
		}
		want string
	}{"monitor": {w.monitor, "7\n"}, "port": {w.port, "/\n"}} {
		if err := c.from.SetReadDeadline(deadline); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c.from); err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	<-p.ended
	if got := string(p.console.text); got != "diskab" || p.err != nil {
		t.Errorf("it read %q, %v (%s)", got, p.err, p.messages)
	}
	if _, err := disk.Stat(); err != nil {
		t.Errorf("a file of others was closed: %v", err)
	}
}

// The files by which groups are entered come before all others.
func TestWiresAfterGroups(t *testing.T) {
	has := Descriptors{}
	m := &machine{engine: &engine{system: System{Inherit: func(_ Hardware, d Descriptors) []string {
		has = d
		return nil
	}}}}
	w := &wires{}
	for _, name := range []string{Socket, Port, Disk} {
		w.adopt(os.Stdin, name)
	}
	w.arrange(m, &invocation{attach: cgroup.Attach{Files: []int{11, 12}}})
	if has[Socket] != 5 || has[Port] != 6 || has[Disk] != 7 || len(has) != 3 {
		t.Errorf("%v", has)
	}
}
