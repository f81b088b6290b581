package seccomp

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// x32Bit marks the system calls of the x32 ABI, which repeats every call under
// another number; on other architectures no number is that high.
const x32Bit = 0x40000000

// Filter is the program for this architecture, built once.
var Filter = sync.OnceValues(func() ([]unix.SockFilter, error) { return build(verdicts(), checks) })

// verdicts says for each known number what becomes of it: a return value, or
// the index of a check as -1-i.
func verdicts() map[uint32]int {
	table := map[uint32]int{}
	for _, nr := range slices.Concat(allowed, archAllowed) {
		table[nr] = int(allow)
	}
	for _, r := range Refusals() {
		table[r.Nr] = int(eperm)
	}
	for i, c := range checks {
		table[c.nr] = -1 - i
	}
	return table
}

// span is a run of numbers from start on that share a verdict.
type span struct {
	start   uint32
	verdict int
}

// spans turns the table into runs that cover all numbers. Numbers that nobody
// knows get ENOSYS, whether below or above the known ones.
func spans(table map[uint32]int) []span {
	var highest uint32
	for nr := range table {
		highest = max(highest, nr)
	}
	list := []span{}
	for nr := uint32(0); nr <= highest+1; nr++ {
		verdict, known := table[nr]
		if !known {
			verdict = int(enosys)
		}
		if len(list) == 0 || list[len(list)-1].verdict != verdict {
			list = append(list, span{nr, verdict})
		}
	}
	if last := list[len(list)-1]; last.start > x32Bit {
		panic("seccomp: a system call number in the x32 range")
	}
	return list
}

func build(table map[uint32]int, checks []check) ([]unix.SockFilter, error) {
	a := &assembler{}
	a.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offsetArch)
	a.unlessEqual(auditArch, kill)
	a.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offsetNr)
	a.tree(spans(table))
	for i, c := range checks {
		a.label(-1 - i)
		c.rules(a)
	}
	program, err := a.link()
	if err != nil {
		return nil, fmt.Errorf("seccomp: %w", err)
	}
	return program, nil
}

// tree emits a balanced search for the span that holds the number.
func (a *assembler) tree(list []span) {
	if len(list) == 1 {
		a.jump(list[0].verdict)
		return
	}
	middle := len(list) / 2
	low, high := list[:middle], list[middle:]
	switch {
	case len(low) == 1 && len(high) == 1:
		a.ifAtLeast(high[0].start, high[0].verdict, low[0].verdict)
	case len(low) == 1:
		a.ifAtLeast(high[0].start, next, low[0].verdict)
		a.tree(high)
	case len(high) == 1:
		a.ifAtLeast(high[0].start, high[0].verdict, next)
		a.tree(low)
	default:
		right := a.fresh()
		a.ifAtLeast(high[0].start, right, next)
		a.tree(low)
		a.label(right)
		a.tree(high)
	}
}
