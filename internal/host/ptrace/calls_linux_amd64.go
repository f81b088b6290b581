package ptrace

import (
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// CallSize is how much memory a call takes that is one of many: its number, its
// arguments and then its result, each of eight bytes.
const CallSize = 64

// Calls is a program that makes the calls whose first is at RBX, R12 of them, and
// then sleeps: it does not trap, which would be lost to a process that has a handler
// for that. It may be anywhere.
var Calls = []byte{
	0x48, 0x8b, 0x03, //       mov rax, [rbx]
	0x48, 0x8b, 0x7b, 0x08, // mov rdi, [rbx+8]
	0x48, 0x8b, 0x73, 0x10, // mov rsi, [rbx+16]
	0x48, 0x8b, 0x53, 0x18, // mov rdx, [rbx+24]
	0x4c, 0x8b, 0x53, 0x20, // mov r10, [rbx+32]
	0x4c, 0x8b, 0x43, 0x28, // mov r8, [rbx+40]
	0x4c, 0x8b, 0x4b, 0x30, // mov r9, [rbx+48]
	0x0f, 0x05, //             syscall
	0x48, 0x89, 0x43, 0x38, // mov [rbx+56], rax
	0x48, 0x83, 0xc3, 0x40, // add rbx, 64
	0x49, 0xff, 0xcc, //       dec r12
	0x75, 0xd6, //             jnz to the first
	0xb8, 0x22, 0, 0, 0, //    mov eax, pause
	0x0f, 0x05, //             syscall
	0xeb, 0xf7, //             jmp to the mov before
}

// ResultAt is where in a call its result is, and NoResult what is there before: no
// call has that.
const (
	ResultAt = 56
	NoResult = -1 << 62
)

// PutCall writes a call to memory.
func PutCall(to []byte, nr uintptr, args ...uint64) {
	binary.NativeEndian.PutUint64(to, uint64(nr))
	for i, arg := range args {
		binary.NativeEndian.PutUint64(to[8+8*i:], arg)
	}
	result := int64(NoResult)
	binary.NativeEndian.PutUint64(to[ResultAt:], uint64(result))
}

// CallResult reads what came of a call.
func CallResult(from []byte) int64 { return int64(binary.NativeEndian.Uint64(from[ResultAt:])) }

// Poke writes to memory of the thread's process, also where the process itself
// cannot.
func (t *Thread) Poke(at uint64, data []byte) error {
	if _, err := unix.PtracePokeText(t.TID, uintptr(at), data); err != nil {
		return fmt.Errorf("ptrace: poke: %w", err)
	}
	return nil
}

// Begin has the stopped thread make count calls, by the program Calls that is at
// code, from the one at first on. Finish must follow.
func (t *Thread) Begin(base *Registers, code, first uint64, count int) error {
	r := *base
	r.Rip, r.Rbx, r.R12, r.Orig_rax = code, first, uint64(count), ^uint64(0)
	if err := t.SetRegisters(&r); err != nil {
		return fmt.Errorf("ptrace: set registers: %w", err)
	}
	return t.goOn(unix.PTRACE_CONT)
}

// Finish waits until the calls have been made, as made says, and stops the thread.
func (t *Thread) Finish(made func() (bool, error)) error {
	var naps naps
	defer naps.end()
	for end := time.Now().Add(callPatience); ; {
		done, err := made()
		if err != nil {
			return err
		}
		if done {
			break
		}
		if err := t.keepGoing(); err != nil {
			return err
		}
		if naps.nap(); time.Now().After(end) {
			return ErrStuck
		}
	}
	if err := number(unix.PTRACE_INTERRUPT, t.TID, 0); err != nil {
		return fmt.Errorf("ptrace: interrupt %d: %w", t.TID, err)
	}
	status, err := t.wait(callPatience)
	if err == nil && status>>8 != unix.PTRACE_EVENT_STOP {
		err = t.disturbed(status)
	}
	return err
}

// keepGoing has the thread go on if it was stopped with its process.
func (t *Thread) keepGoing() error {
	status, stopped, err := t.poll()
	switch {
	case err != nil || !stopped:
		return err
	case status>>8 != unix.PTRACE_EVENT_STOP:
		return t.disturbed(status)
	}
	return t.goOn(unix.PTRACE_CONT)
}
