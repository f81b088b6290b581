package qemu

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"aether/image/kernel"
	"aether/sandbox"
)

// probeTime is how long QEMU may take to say its version.
const probeTime = 1500 * time.Millisecond

// Probe implements sandbox.Driver. It looks for all that a machine is made of and
// tries KVM; a machine itself takes longer to boot than a probe may.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	if runtime.GOARCH != "amd64" {
		return sandbox.Report{Reason: "machines of the kind microvm are x86 only", Remedy: "use an x86-64 host"}
	}
	program, err := findProgram(d.opts.Program)
	if err != nil {
		return refusal("", err)
	}
	version, err := versionOf(ctx, program)
	if err != nil {
		return refusal("", err)
	}
	k, err := kernel.Find(d.opts.Kernel)
	if err != nil {
		return refusal(version, err)
	}
	if _, err := d.opts.Guest(); err != nil {
		return refusal(version, err)
	}
	report := sandbox.Report{Usable: true, Version: version + ", kernel " + k.Release}
	if d.opts.Emulate {
		report.Gaps = append(report.Gaps, emulation(errors.New("KVM is switched off for this driver")))
	} else if err := kvmWorks(); err != nil {
		report.Gaps = append(report.Gaps, emulation(err))
	}
	return report
}

func refusal(version string, err error) sandbox.Report {
	report := sandbox.Report{Version: version, Reason: err.Error()}
	var e *sandbox.Error
	if errors.As(err, &e) {
		report.Reason, report.Remedy = e.Reason, e.Remedy
	}
	return report
}

func emulation(err error) sandbox.Gap {
	gap := sandbox.Gap{Missing: err.Error(), Cost: "guests are emulated: ten times slower and more, and behind a kernel boundary instead of a hardware one"}
	var e *sandbox.Error
	if errors.As(err, &e) {
		gap.Missing, gap.Remedy = e.Reason, e.Remedy
	}
	return gap
}

func versionOf(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if ctx.Err() != nil {
		return "QEMU", nil // a slow host, which is no reason to do without
	}
	if err != nil {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: program + " does not run", Err: err}
	}
	line, found := strings.CutPrefix(string(out), "QEMU emulator version ")
	version := strings.Fields(line)
	if !found || len(version) == 0 {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: program + " is no QEMU", Remedy: "apt install qemu-system-x86"}
	}
	return "QEMU " + version[0], nil
}
