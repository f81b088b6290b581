package seccomp

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	offsetNr   = 0
	offsetArch = 4
	offsetArgs = 16
)

// Return values of a filter. They double as jump targets: each is emitted once,
// at the end of the program.
const (
	allow    = unix.SECCOMP_RET_ALLOW
	kill     = unix.SECCOMP_RET_KILL_PROCESS
	eperm    = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	enosys   = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	noFamily = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	einval   = unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)
	noPair   = unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)
	pretend  = unix.SECCOMP_RET_ERRNO // nothing is done, and the answer is success

	noProtocol = unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)
)

// next is the target of a jump that is not taken.
const next = -1 << 40

// instruction is a classic BPF instruction whose targets are still labels:
// return values, checks (negative) or labels of the tree.
type instruction struct {
	code        uint16
	k           uint32
	onTrue, not int
	isJump      bool
}

type assembler struct {
	code   []instruction
	labels map[int]int // label -> position
	last   int
}

func (a *assembler) emit(code uint16, k uint32) {
	a.code = append(a.code, instruction{code: code, k: k})
}

func (a *assembler) conditional(op uint16, k uint32, onTrue, not int) {
	a.code = append(a.code, instruction{unix.BPF_JMP | op | unix.BPF_K, k, onTrue, not, true})
}

func (a *assembler) ifAtLeast(k uint32, yes, no int) { a.conditional(unix.BPF_JGE, k, yes, no) }
func (a *assembler) ifEqual(k, verdict uint32) {
	a.conditional(unix.BPF_JEQ, k, int(verdict), next)
}
func (a *assembler) unlessEqual(k, verdict uint32) {
	a.conditional(unix.BPF_JEQ, k, next, int(verdict))
}
func (a *assembler) ifAnyBit(k, verdict uint32) {
	a.conditional(unix.BPF_JSET, k, int(verdict), next)
}
func (a *assembler) ret(verdict uint32) { a.emit(unix.BPF_RET|unix.BPF_K, verdict) }

// jump goes to a target always: a comparison whose outcome does not matter.
func (a *assembler) jump(target int) { a.conditional(unix.BPF_JGE, 0, target, target) }

// loadArg loads the low half of an argument. The values that checks compare are
// 32-bit in the kernel too, so the high half means nothing.
func (a *assembler) loadArg(i int) {
	a.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, uint32(offsetArgs+8*i))
}

// unlessNull has a verdict for an argument that is an address.
func (a *assembler) unlessNull(i int, verdict uint32) {
	a.loadArg(i)
	a.unlessEqual(0, verdict)
	a.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, uint32(offsetArgs+8*i+4))
	a.unlessEqual(0, verdict)
}

func (a *assembler) fresh() int {
	a.last++
	return a.last<<40 | 1
}

func (a *assembler) label(name int) {
	if a.labels == nil {
		a.labels = map[int]int{}
	}
	a.labels[name] = len(a.code)
}

// link appends the returns and resolves the labels. Conditional jumps reach 255
// instructions; a program that outgrows that is an error, found by the tests.
func (a *assembler) link() ([]unix.SockFilter, error) {
	for _, verdict := range []uint32{allow, eperm, enosys, noFamily, noProtocol, noPair, einval, pretend, kill} {
		if slices.ContainsFunc(a.code, func(i instruction) bool { return i.isJump && (i.onTrue == int(verdict) || i.not == int(verdict)) }) {
			a.label(int(verdict))
			a.ret(verdict)
		}
	}
	program := make([]unix.SockFilter, len(a.code))
	for at, in := range a.code {
		program[at] = unix.SockFilter{Code: in.code, K: in.k}
		if !in.isJump {
			continue
		}
		var err error
		if program[at].Jt, err = a.offset(at, in.onTrue); err != nil {
			return nil, err
		}
		if program[at].Jf, err = a.offset(at, in.not); err != nil {
			return nil, err
		}
	}
	return program, nil
}

func (a *assembler) offset(at, target int) (uint8, error) {
	if target == next {
		return 0, nil
	}
	position, ok := a.labels[target]
	distance := position - at - 1
	if !ok || distance < 0 || distance > 255 {
		return 0, fmt.Errorf("no jump from instruction %d to %d is possible", at, position)
	}
	return uint8(distance), nil
}
