package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// verdict begins the line by which the lab's init says how the tests ended.
const verdict = "kvmtest: the tests ended with code "

// arguments are the outer machine: emulated throughout, with a processor whose
// virtualization QEMU emulates well enough for a real kvm_amd.
func (l *lab) arguments() []string {
	return []string{
		"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "EPYC,+svm,+npt", "-smp", "2", "-m", strconv.Itoa(l.memory) + "M",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-blockdev", "driver=raw,node-name=root,read-only=on,file.driver=file,file.filename=" + l.disk.Name(),
		"-device", "virtio-blk-pci,drive=root",
		"-object", "rng-random,id=entropy,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=entropy",
		"-kernel", l.kernel.Image, "-initrd", l.initramfs,
		// Without the finer clocks the kernel is steadier under emulation.
		"-append", "console=ttyS0 quiet reboot=t panic=-1 mitigations=off random.trust_cpu=on no_timer_check nohz=off highres=off",
	}
}

// run boots the lab, shows what the tests say and gives their exit code.
func (l *lab) run(ctx context.Context, stdout, stderr io.Writer) (int, error) {
	// The machine is to end with the thread that starts it, and so with us.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", l.arguments()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	fmt.Fprintln(stderr, "kvmtest: boot")
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	code, found := follow(out, stdout)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return 1, fmt.Errorf("the lab was ended: %w", context.Cause(ctx))
	case !found:
		return 1, errors.Join(errors.New("the lab ended without a verdict"), err)
	}
	return code, nil
}

// follow copies the console line by line and looks for the verdict.
func follow(console io.Reader, to io.Writer) (code int, found bool) {
	scan := bufio.NewScanner(console)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		line := strings.TrimRight(scan.Text(), "\r")
		fmt.Fprintln(to, line)
		if text, ok := strings.CutPrefix(line, verdict); ok {
			number, err := strconv.Atoi(text)
			code, found = number, err == nil
		}
	}
	return code, found
}
