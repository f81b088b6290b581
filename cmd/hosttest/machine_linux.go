package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// machine is one boot of a host.
type machine struct {
	host
	entry string // of the root
	lab   string // the disk with the payload
	dir   string // for what QEMU writes
	kvm   bool
	crowd bool // it is to have room for thousands of cells
}

// memory is how much the machine has, in MiB.
func (m machine) memory() int {
	if m.crowd {
		return 16 << 10
	}
	return 4 << 10
}

// emulated is for kernels whose clock is emulated too: they are steadier without the
// finer ones.
const emulated = "no_timer_check nohz=off highres=off"

// kernelLine is the kernel's command line.
func (m machine) kernelLine() string {
	line := "console=" + architectures[m.root.arch].console + " root=LABEL=" + rootLabel + " rw quiet mitigations=off random.trust_cpu=on systemd.show_status=0 audit=0 panic=-1"
	if !m.kvm {
		line += " " + emulated
	}
	return strings.Join(append([]string{line}, m.host.arguments...), " ")
}

func (m machine) processor() []string {
	switch {
	case m.kvm:
		return []string{"-accel", "kvm", "-cpu", "host"}
	case m.root.arch == "arm64":
		// The architecture's own way to sign pointers takes most of the time.
		return []string{"-accel", "tcg,thread=multi", "-cpu", "max,pauth-impdef=on"}
	}
	// QEMU 7.2 emulates cmpxchg16b wrongly, on which kernels from about 6.7 on rely.
	// With a thread for each processor, machines were also seen to stand still for
	// good, all processors at one breakpoint in the kernel's own code, as if one had
	// missed that another patched it. One thread for both is slower.
	return []string{"-accel", "tcg,thread=single", "-cpu", "max,cx16=off"}
}

// command is QEMU. What the machine writes to its root is gone with it, so that
// every run begins alike.
func (m machine) command() []string {
	args := append(append([]string(nil), architectures[m.root.arch].machine...), m.processor()...)
	return append(args,
		"-smp", "2", "-m", fmt.Sprintf("%dM", m.memory()), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-drive", "format=raw,if=virtio,snapshot=on,file="+disk(m.entry),
		"-drive", "format=raw,if=virtio,readonly=on,file="+m.lab,
		"-object", "rng-random,id=entropy,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=entropy",
		"-kernel", boot(m.entry, m.host.kernel, "vmlinuz"), "-initrd", boot(m.entry, m.host.kernel, "initrd"),
		"-append", m.kernelLine())
}

// run boots the machine and gives what it tells. It is ended as soon as it has told
// everything.
func (m machine) run(ctx context.Context, c console) (results []result, err error) {
	program, err := need(architectures[m.root.arch].emulator)
	if err != nil {
		return nil, err
	}
	// The machine is to end with the thread that starts it, and so with us.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	running, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(running, program, m.command()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "TMPDIR="+m.dir)
	cmd.Stderr = c.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	results, whole, err := c.follow(out)
	stop()
	waitErr := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return results, errors.Join(fmt.Errorf("it was ended: %w", context.Cause(ctx)), err)
	case !whole:
		return results, errors.Join(errors.New("it ended early"), waitErr, err)
	}
	return results, err
}

// logFile is where the console of a host goes.
func logFile(state, host string) (*os.File, error) {
	dir := filepath.Join(state, "logs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.Create(filepath.Join(dir, host+".log"))
}
