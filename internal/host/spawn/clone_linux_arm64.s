#include "textflag.h"

#define SYS_rt_sigprocmask 135
#define SYS_clone3 435
#define SYS_exit_group 94

// func cloneWalk(c *control) int64
//
// As on amd64: R19 holds the control block, R20 the step.
TEXT ·cloneWalk(SB),NOSPLIT|NOFRAME,$0-16
	MOVD	c+0(FP), R19
	MOVD	$2, R0
	MOVD	R19, R1
	ADD	$8, R19, R2
	MOVD	$8, R3
	MOVD	$SYS_rt_sigprocmask, R8
	SVC
	ADD	$16, R19, R0
	MOVD	$88, R1
	MOVD	$SYS_clone3, R8
	SVC
	CBZ	R0, child
	MOVD	R0, R21
	MOVD	$2, R0
	ADD	$8, R19, R1
	MOVD	$0, R2
	MOVD	$8, R3
	MOVD	$SYS_rt_sigprocmask, R8
	SVC
	MOVD	R21, ret+8(FP)
	RET

child:
	ADD	$256, R19, R20

walk:
	MOVD	0(R20), R8
	MOVD	8(R20), R0
	MOVD	16(R20), R1
	MOVD	24(R20), R2
	MOVD	32(R20), R3
	MOVD	40(R20), R4
	MOVD	48(R20), R5
	SVC
	MOVD	56(R20), R9     // flags
	TBZ	$1, R9, store   // branch: a clone's child goes on elsewhere
	CBNZ	R0, cloned
	MOVD	64(R20), R20
	B	walk

cloned:
	MOVD	R0, 72(R20)
	B	check

store:
	MOVD	R0, 72(R20)
	MOVD	64(R20), R10
	CBZ	R10, check
	MOVD	R0, (R10)

check:
	CMN	$4095, R0       // errors are -4095 to -1
	BLO	next
	TBNZ	$0, R9, next    // mayFail
	MOVD	R0, 112(R19)
	MOVD	R20, 104(R19)
	MOVD	$127, R0
	MOVD	$SYS_exit_group, R8
	SVC

next:
	ADD	$80, R20
	B	walk
