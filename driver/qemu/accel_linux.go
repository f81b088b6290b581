package qemu

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"aether/internal/host/features"
	"aether/sandbox"
)

// accel is how a machine's instructions are executed.
type accel struct {
	name     string // as QEMU has it
	cpu      string
	boundary sandbox.Boundary
	// words are for the guest's kernel.
	words string
}

// hardware is KVM.
var hardware = accel{name: "kvm", cpu: "host", boundary: sandbox.HardwareBoundary}

// emulated is QEMU's translator. The guest's clocks run on the host's, so the
// kernel is told their speed: where it measures, a busy host can make it hang.
func emulated() accel {
	a := accel{name: "tcg,thread=multi,tb-size=128", cpu: "max", boundary: sandbox.KernelBoundary, words: " no_timer_check"}
	if khz := clockRate(); khz > 0 {
		const ticks = 250 // a second, of Debian's kernels
		a.words += " tsc_early_khz=" + strconv.Itoa(khz) + " lpj=" + strconv.Itoa(khz*1000/ticks)
	}
	return a
}

// kvmWorks tries KVM once: it does not change while a program runs.
var kvmWorks = sync.OnceValue(func() error { return features.KVM(context.Background()) })

func (d *Driver) accel() accel {
	if d.opts.Emulate || kvmWorks() != nil {
		return emulated()
	}
	return hardware
}

// clockRate is the rate of the processor's time stamp counter in kHz, or 0.
func clockRate() int {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || runtime.GOARCH != "amd64" {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) != "cpu MHz" {
			continue
		}
		mhz, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return 0
		}
		return int(mhz * 1000)
	}
	return 0
}

// Info implements sandbox.Driver. Whether KVM works is tried at the first call,
// which takes some milliseconds, and two seconds on a host whose KVM hangs.
func (d *Driver) Info() sandbox.Info {
	return sandbox.Info{Name: Name, Boundary: d.accel().boundary, Verbs: verbs}
}
