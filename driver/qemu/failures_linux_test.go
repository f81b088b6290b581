package qemu

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/driver/vmm"
	"aether/driver/vmm/vmmtest"
	"aether/image/disk"
	"aether/image/kernel"
	"aether/sandbox"
)

// fails wants Create to fail in time, with a class and a word of the reason.
func fails(t *testing.T, d *vmm.Driver, class sandbox.Class, word string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience(t))
	defer cancel()
	i, err := d.Create(ctx, testSpec())
	if err == nil {
		t.Fatal("a machine came up", i.Destroy(context.Background()))
	}
	if sandbox.ClassOf(err) != class || !strings.Contains(err.Error(), word) {
		t.Errorf("class %v: %v\nwant class %v and %q", sandbox.ClassOf(err), err, class, word)
	}
	if left := machinesLeft(t); len(left) > 0 {
		t.Errorf("processes %v are left of a machine that did not come up", left)
	}
}

func TestKernelThatIsNone(t *testing.T) {
	real := kernelImage(t)
	for name, c := range map[string]struct {
		content func() ([]byte, error)
		class   sandbox.Class
		word    string
	}{
		// A program has the form of a kernel, and QEMU finds out.
		"a program": {func() ([]byte, error) { return os.ReadFile("/bin/true") }, sandbox.Unavailable, "qemu-kvm says"},
		"half a kernel": {func() ([]byte, error) {
			b, err := os.ReadFile(real)
			return b[:len(b)/2], err
		}, sandbox.Invalid, "kernel"},
		"a text": {func() ([]byte, error) { return []byte("a text"), nil }, sandbox.Invalid, "no Linux kernel"},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := c.content()
			if err != nil {
				t.Fatal(err)
			}
			fails(t, driverWith(t, func(o *Options) { o.Kernel = kernel.Places{Named: kernelOf(t, content)} }), c.class, c.word)
		})
	}
}

// kernelOf makes a file that has the place and the modules of the real kernel.
func kernelOf(t *testing.T, content []byte) string {
	t.Helper()
	real, dir := kernelImage(t), t.TempDir()
	image := filepath.Join(dir, "boot", strings.Replace(filepath.Base(real), "vmlinuz", "vmlinux", 1))
	if err := errors.Join(os.Mkdir(filepath.Dir(image), 0o755), os.WriteFile(image, content, 0o644),
		os.Symlink(filepath.Join(filepath.Dir(filepath.Dir(real)), "lib"), filepath.Join(dir, "lib"))); err != nil {
		t.Fatal(err)
	}
	return image
}

func TestInitThatDoesNotRun(t *testing.T) {
	// It needs libraries, which the initramfs does not have.
	d := driverWith(t, func(o *Options) { o.Guest = func() (string, error) { return "/bin/true", nil } })
	fails(t, d, sandbox.Unavailable, "its console says")
}

func TestBrokenDisk(t *testing.T) {
	state := freshState(t)
	d := driverWith(t, func(o *Options) { o.StateDir = state })
	images, err := vmmtest.Options("").Images()
	if err != nil {
		t.Fatal(err)
	}
	root, err := images.Resolve(t.Context(), vmmtest.Image(), nil)
	if err != nil {
		t.Fatal(err)
	}
	disks, err := disk.Open(filepath.Join(state, "disks"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := disks.Ensure(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	if err := os.WriteFile(file.Name(), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, d, sandbox.Unavailable, "mount erofs")
}

// givesUp wants Create to end soon after its caller has had enough, and to leave
// nothing.
func givesUp(t *testing.T, d *vmm.Driver, after time.Duration, word string) {
	t.Helper()
	// It is given more time until it came as far as it should before that was over.
	for ; ; after *= 3 {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		began := time.Now()
		i, err := d.Create(ctx, testSpec())
		cancel()
		if err == nil {
			t.Fatal("a machine came up", i.Destroy(context.Background()))
		}
		if sandbox.ClassOf(err) != sandbox.Timeout {
			t.Errorf("class %v: %v", sandbox.ClassOf(err), err)
		}
		if took := time.Since(began); took > after+patience(t) {
			t.Errorf("giving up took %v", took)
		}
		if strings.Contains(err.Error(), word) {
			break
		}
		if after > within(t, 30*time.Second) {
			t.Fatalf("%q is not in: %v", word, err)
		}
	}
	if left := machinesLeft(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestCancelledCreate(t *testing.T) {
	state := freshState(t) // after which the kernel is unpacked everywhere
	cold := driverWith(t, func(o *Options) { o.Cold = true })
	givesUp(t, cold, 100*time.Millisecond, "")
	// The boot of a template is given up with the machine that needs it.
	fresh := driverWith(t, func(o *Options) { o.StateDir = state })
	givesUp(t, fresh, 500*time.Millisecond, "")
	if left := templatesIn(t, state); len(left) > 0 {
		t.Errorf("half-made templates are left: %v", left)
	}
}

// sleeper is the least that QEMU takes for a kernel: it stops the processor.
func sleeper() []byte {
	const base, head = 0x100000, 64 + 2*56
	note := append([]byte{4, 0, 0, 0, 8, 0, 0, 0, 18, 0, 0, 0}, "Xen\x00"...)
	code := append(binary.LittleEndian.AppendUint64(note, base+head+24), 0xfa, 0xf4, 0xeb, 0xfc) // cli; hlt; jmp
	var b bytes.Buffer
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}
	for _, part := range []any{
		elf.Header64{Ident: ident, Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Entry: base + head + 24,
			Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 2},
		elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 7, Vaddr: base, Paddr: base, Filesz: head + uint64(len(code)), Memsz: head + uint64(len(code)), Align: 4},
		elf.Prog64{Type: uint32(elf.PT_NOTE), Flags: 4, Off: head, Vaddr: base + head, Paddr: base + head, Filesz: 24, Memsz: 24, Align: 4},
		code,
	} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			panic(err) // the parts have fixed sizes
		}
	}
	return append(b.Bytes(), make([]byte, 4096)...)
}

func TestKernelThatHangs(t *testing.T) {
	d := driverWith(t, func(o *Options) { o.Kernel = kernel.Places{Named: kernelOf(t, sleeper())} })
	givesUp(t, d, within(t, 5*time.Second), "the guest service did not answer")
}

// programOf makes a script that stands in for QEMU.
func programOf(t *testing.T, script string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "aether-qemu-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	name := filepath.Join(dir, "qemu-system-other")
	// It is run by a user that owns nothing.
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(name, []byte("#!/bin/sh\n"+script+"\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestProgramThatIsNoQEMU(t *testing.T) {
	for name, c := range map[string]struct{ script, probe, create string }{
		"ends":     {"echo I am not QEMU; exit 3", "does not run", "I am not QEMU"},
		"says":     {"echo hello", "it is no QEMU", "hello"},
		"is empty": {"", "it is no QEMU", "ended before"},
	} {
		t.Run(name, func(t *testing.T) {
			d := driverWith(t, func(o *Options) { o.Program = programOf(t, c.script) })
			if report := d.Probe(t.Context()); report.Usable || !strings.Contains(report.Reason, c.probe) {
				t.Errorf("%+v", report)
			}
			fails(t, d, sandbox.Unavailable, c.create)
		})
	}
}

func TestQEMUThatHangs(t *testing.T) {
	d := driverWith(t, func(o *Options) { o.Program = programOf(t, "kill -STOP $$") })
	var took time.Duration
	for range 10 { // a host may be at something else for a while
		began := time.Now()
		d.Probe(t.Context()) // whatever it says of a host that slow
		if took = time.Since(began); took <= 2*time.Second {
			break
		}
	}
	if took > 2*time.Second {
		t.Errorf("a probe takes %v", took)
	}
	givesUp(t, d, 2*time.Second, "qemu-kvm did not answer")
}

func TestRefusals(t *testing.T) {
	d := driverWith(t, func(o *Options) { o.Emulate = true })
	for field, c := range map[string]struct {
		change func(*sandbox.Spec)
		class  sandbox.Class
	}{
		"limits.memory":      {func(s *sandbox.Spec) { s.Limits.MemoryBytes = 128<<20 - 1 }, sandbox.Unsupported},
		"limits":             {func(s *sandbox.Spec) { s.Limits.MemoryBytes = math.MaxInt64 }, sandbox.Unsupported},
		"limits.disk_backed": {func(s *sandbox.Spec) { s.Limits.DiskBacked = true }, sandbox.Unsupported},
		"network.mode":       {func(s *sandbox.Spec) { s.Network.Mode = sandbox.HostNetwork }, sandbox.Unsupported},
		"mounts":             {func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Source: "/a", Target: "/b"}} }, sandbox.Unsupported},
		"isolation":          {func(s *sandbox.Spec) { s.Isolation = sandbox.HardwareBoundary }, sandbox.Unsupported},
	} {
		spec := testSpec()
		c.change(&spec)
		_, err := d.Create(t.Context(), spec)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Class != c.class || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
