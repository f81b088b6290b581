package vmm

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"aether/internal/host/features"
	"aether/sandbox"
)

var kvmWorked atomic.Bool

// kvmWorks tries KVM until it works once: a guest that did not come to its end in
// time may have been a matter of the host's load.
func kvmWorks() error {
	if kvmWorked.Load() {
		return nil
	}
	err := features.KVM(context.Background())
	kvmWorked.Store(err == nil)
	return err
}

// kvmAtFirst is what the first try has said, for systems that can do without: all
// machines of a program are of one kind.
var kvmAtFirst = sync.OnceValue(kvmWorks)

// emulated says whether the system runs its machines without KVM here.
func (s System) emulated() bool {
	return s.Emulates == EmulatesAlways || s.Emulates == EmulatesWithoutKVM && kvmAtFirst() != nil
}

// needKVM is nil where the system's machines can run.
func (s System) needKVM() error {
	if s.emulated() {
		return nil
	}
	return kvmWorks()
}

// emulation says what machines without KVM cost.
func (s System) emulation() sandbox.Gap {
	gap := sandbox.Gap{Missing: "KVM is switched off for this driver",
		Cost: "guests are emulated: ten times slower and more, and behind a kernel boundary instead of a hardware one"}
	if s.Emulates == EmulatesAlways {
		return gap
	}
	err := kvmAtFirst()
	gap.Missing = err.Error()
	var e *sandbox.Error
	if errors.As(err, &e) {
		gap.Missing, gap.Remedy = e.Reason, e.Remedy
	}
	return gap
}
