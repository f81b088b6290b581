package vmm

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"

	"aether/image/kernel"
	"aether/sandbox"
)

// Probe implements sandbox.Driver. It looks for all that a machine is made of and
// tries KVM; a machine itself takes longer to boot than a probe may.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	if runtime.GOARCH != "amd64" {
		return sandbox.Report{Reason: "machines of " + d.system.Name + " are made on x86 only so far", Remedy: "use an x86-64 host"}
	}
	kvm := make(chan error, 1)
	go func() { kvm <- d.system.needKVM() }() // both may take long on a broken host
	found, err := findProgram(ctx, d.system, d.opts.Program, probeTime)
	if d.system.AnyVersion && errors.Is(err, context.DeadlineExceeded) {
		found, err = lookProgram(d.system, d.opts.Program) // a slow host is no reason to do without
	}
	if err != nil {
		// A program of our own comes with this one: what the host lacks is said first.
		if lacks := <-kvm; lacks != nil && d.system.Handed {
			err = lacks
		}
		return refusal("", err)
	}
	version := strings.TrimSpace(d.system.Name + " " + found.version)
	if err := <-kvm; err != nil {
		return refusal(version, err)
	}
	k, err := kernel.Find(d.opts.Kernel)
	if err != nil {
		return refusal(version, err)
	}
	if _, err := d.opts.Guest(); err != nil {
		return refusal(version, err)
	}
	return sandbox.Report{Usable: true, Version: version + ", kernel " + k.Release, Gaps: d.gaps(found)}
}

func refusal(version string, err error) sandbox.Report {
	report := sandbox.Report{Version: version, Reason: err.Error()}
	var e *sandbox.Error
	if errors.As(err, &e) {
		report.Reason, report.Remedy = e.Reason, e.Remedy
		if e.Err != nil {
			report.Reason += ": " + e.Err.Error()
		}
	}
	return report
}

// gaps are what stands between a guest and the host no more once the guest has
// taken its monitor over, and what its version cannot do.
func (d *Driver) gaps(found program) (list []sandbox.Gap) {
	emulated := d.system.emulated()
	if emulated {
		list = append(list, d.system.emulation())
	}
	jail, missing := jailFor(d.system, found.path)
	if missing != nil {
		list = append(list, *missing)
	}
	if jail == nil && !d.system.Handed && os.Geteuid() == 0 && !emulated && lowlyUser(false) == nil {
		list = append(list, sandbox.Gap{Missing: "/dev/kvm is open to root only", Cost: found.path + " runs as root",
			Remedy: "give the device a group of its own, as the package udev does"})
	}
	if d.system.MayPause != nil {
		if err := d.system.MayPause(found.version); err != nil {
			r := refusal("", err)
			list = append(list, sandbox.Gap{Missing: r.Reason, Cost: "sandboxes cannot be paused", Remedy: r.Remedy})
		}
	}
	return list
}

// jailFor is how a monitor is confined by a program made for it. Only root can use
// one.
func jailFor(system System, program string) (Jail, *sandbox.Gap) {
	if system.Jail == nil || os.Geteuid() != 0 || !hasUsers() {
		return nil, nil
	}
	return system.Jail(program)
}
