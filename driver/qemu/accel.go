package qemu

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// accel is how a machine's instructions are executed.
type accel struct {
	name string // as QEMU has it
	cpu  string
	// kernelArgs are for the guest's kernel.
	kernelArgs string
}

func accelOf(emulated bool) accel {
	if emulated {
		return emulator()
	}
	return accel{name: "kvm", cpu: "host"}
}

// emulator is QEMU's translator. The guest's clocks run on the host's, so the
// kernel is told their speed: where it measures, a busy host can make it hang.
func emulator() accel {
	a := accel{name: "tcg,thread=multi,tb-size=128", cpu: "max", kernelArgs: " no_timer_check"}
	if khz := clockRate(); khz > 0 {
		const ticks = 250 // a second, of Debian's kernels
		a.kernelArgs += " tsc_early_khz=" + strconv.Itoa(khz) + " lpj=" + strconv.Itoa(khz*1000/ticks)
	}
	return a
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
