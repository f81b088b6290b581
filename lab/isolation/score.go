package isolation

import (
	"math"

	"aether/internal/host/isolationprobe"
	"aether/sandbox"
)

// Class is what stands between the sandbox and its host, as it was found.
type Class string

// Classes, weakest first. Process: the host's kernel answers, or nobody can tell. User kernel:
// another one does that is itself a program. Emulated and hardware: a kernel on a machine of
// its own, the latter by virtualization, for which the driver's word is taken.
const (
	ClassProcess    Class = "process"
	ClassUserKernel Class = "user-kernel"
	ClassEmulated   Class = "emulated-machine"
	ClassHardware   Class = "hardware"
)

// ceilings are the scores of sandboxes in which nothing was found.
var ceilings = map[Class]float64{ClassProcess: 0.50, ClassUserKernel: 0.70, ClassEmulated: 0.85, ClassHardware: 1}

const (
	// scale is the weight of findings that leaves 1/e of the ceiling.
	scale = 100
	// callsWeight is that of all of the host's system calls being reachable.
	callsWeight = 20
)

func classOf(kernel string, machine bool, declared sandbox.Boundary) Class {
	switch {
	case kernel != ownKernel:
		return ClassProcess
	case !machine:
		return ClassUserKernel
	case declared == sandbox.HardwareBoundary:
		return ClassHardware
	}
	return ClassEmulated
}

// lost is the weight of all that was not found to be safe, and of the host's system calls as
// far as they are reachable.
func lost(list []Finding, calls isolationprobe.Calls, kernel string) (sum float64) {
	for _, f := range list {
		if f.Status != Safe {
			sum += f.Weight
		}
	}
	if kernel != ownKernel && calls.Tried > 0 {
		sum += callsWeight * float64(calls.Answered) / float64(calls.Tried)
	}
	return sum
}

// score falls with what was lost, by the same share for the same weight, and never below
// zero.
func score(class Class, lost float64) float64 { return ceilings[class] * math.Exp(-lost/scale) }
