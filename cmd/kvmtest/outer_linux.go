package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// arguments are the outer machine: emulated throughout, with a processor whose
// virtualization QEMU emulates well enough for a real kvm_amd. One thread emulates
// one processor: with more of them, a machine of QEMU 7.2 can stand still for good.
// Its clock counts instructions, four nanoseconds each, and leaps over idle time, so
// that no wait inside is cut short because the host is busy.
func (l *lab) arguments(archive string) []string {
	return []string{
		"-machine", "q35", "-accel", "tcg,thread=single", "-icount", "shift=2,sleep=off,align=off", "-cpu", "EPYC,+svm,+npt", "-smp", "1", "-m", strconv.Itoa(l.memory) + "M",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-blockdev", "driver=raw,node-name=root,read-only=on,file.driver=file,file.filename=" + l.disk.Name(),
		"-device", "virtio-blk-pci,drive=root",
		"-object", "rng-random,id=entropy,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=entropy",
		"-kernel", l.kernel.Image, "-initrd", archive,
		// Without the finer clocks the kernel is steadier under emulation.
		"-append", "console=ttyS0 quiet reboot=t panic=-1 mitigations=off random.trust_cpu=on no_timer_check nohz=off highres=off",
	}
}

// errStill is that the lab has said nothing for so long that it never will.
var errStill = errors.New("it stands still")

// boot boots the lab, shows what the tests say and gives how they ended. Errors:
// errStill.
func (l *lab) boot(ctx context.Context, archive string, stdout, stderr io.Writer) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	silence := time.AfterFunc(l.silence, func() { end(errStill) })
	defer silence.Stop()
	// The machine is to end with the thread that starts it, and so with us.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", l.arguments(archive)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return result{}, err
	}
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	r := follow(out, stdout, func() { silence.Reset(l.silence) })
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return r, fmt.Errorf("the lab was ended: %w", context.Cause(ctx))
	case !r.found:
		return r, errors.Join(errors.New("the lab ended without a verdict"), err)
	case r.suiteSkipped:
		return r, errors.New("the tests were skipped, in a lab that is there to run them")
	}
	return r, nil
}
