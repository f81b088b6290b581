#include "textflag.h"

#define SYS_rt_sigprocmask 14
#define SYS_clone3 435
#define SYS_exit_group 231

// func cloneWalk(c *control) int64
//
// Masks all signals, clones a child with the arguments at 16(c), restores the
// mask and returns what clone3 returned. The child walks the steps from 256(c):
// BX holds the control block, R12 the step; there is no stack and no g. It ends
// by a successful execve, by exit, or by the first call that may not fail and
// does, which is noted at 104(c) and 112(c).
TEXT ·cloneWalk(SB),NOSPLIT|NOFRAME,$0-16
	MOVQ	c+0(FP), BX
	MOVQ	$SYS_rt_sigprocmask, AX
	MOVQ	$2, DI
	LEAQ	0(BX), SI
	LEAQ	8(BX), DX
	MOVQ	$8, R10
	SYSCALL
	MOVQ	$SYS_clone3, AX
	LEAQ	16(BX), DI
	MOVQ	$88, SI
	SYSCALL
	TESTQ	AX, AX
	JZ	child
	MOVQ	AX, R13
	MOVQ	$SYS_rt_sigprocmask, AX
	MOVQ	$2, DI
	LEAQ	8(BX), SI
	XORL	DX, DX
	MOVQ	$8, R10
	SYSCALL
	MOVQ	R13, ret+8(FP)
	RET

child:
	LEAQ	256(BX), R12
	JMP	·walk(SB)

// walk walks a script: BX holds its control block, R12 the first step. It has no
// stack and no g, and refers to nothing but through registers, so that a copy of
// it works anywhere in any process; walkEnd marks where it ends.
TEXT ·walk(SB),NOSPLIT|NOFRAME,$0-0
walk:
	MOVQ	0(R12), AX
	MOVQ	8(R12), DI
	MOVQ	16(R12), SI
	MOVQ	24(R12), DX
	MOVQ	32(R12), R10
	MOVQ	40(R12), R8
	MOVQ	48(R12), R9
	SYSCALL
	MOVQ	56(R12), CX  // flags
	TESTQ	$2, CX       // branch: a clone's child goes on elsewhere
	JZ	store
	TESTQ	AX, AX
	JNZ	cloned
	MOVQ	64(R12), R12
	JMP	walk

cloned:
	MOVQ	AX, 72(R12)
	JMP	check

store:
	MOVQ	AX, 72(R12)
	MOVQ	64(R12), DX
	TESTQ	DX, DX
	JZ	check
	TESTQ	$4, CX       // jump: that is where to go, not where to store
	JNZ	check
	MOVQ	AX, (DX)

check:
	CMPQ	AX, $0xfffffffffffff001
	JCS	next
	TESTQ	$1, CX       // mayFail
	JNZ	next
	MOVQ	AX, 112(BX)
	MOVQ	R12, 104(BX)
	MOVQ	$SYS_exit_group, AX
	MOVQ	$127, DI
	SYSCALL

next:
	TESTQ	$4, CX
	JNZ	jump
	ADDQ	$80, R12
	JMP	walk

jump:
	MOVQ	64(R12), R12
	JMP	walk

TEXT ·walkEnd(SB),NOSPLIT|NOFRAME,$0-0
	RET

// func walkBounds() (start, end uintptr)
TEXT ·walkBounds(SB),NOSPLIT,$0-16
	LEAQ	·walk(SB), AX
	MOVQ	AX, start+0(FP)
	LEAQ	·walkEnd(SB), AX
	MOVQ	AX, end+8(FP)
	RET
