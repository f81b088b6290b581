package isolationprobe

import "golang.org/x/sys/unix"

// The table ends at lastCall, and has nothing between the old numbers and those that all
// architectures share.
const (
	lastCall = unix.SYS_RSEQ_SLICE_YIELD
	gapFrom  = 295
	gapTo    = 423
)

// untried end, block or multiply the caller, or do something to others whatever their
// arguments are.
var untried = []int{
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_RT_SIGRETURN, unix.SYS_RESTART_SYSCALL, unix.SYS_SYNC, unix.SYS_VHANGUP,
}

// harmless are arguments for calls that -1 is not right for: it would do something, or be
// answered as if the call were not there, or meet a filter that is about arguments.
var harmless = map[int]args{
	unix.SYS_FUTEX:       {nothing, 1 /* FUTEX_WAKE */},
	unix.SYS_MSGGET:      {0x7ffffffe, 0},
	unix.SYS_CLONE:       {unix.CLONE_THREAD}, // not without CLONE_SIGHAND: EINVAL
	unix.SYS_MKNODAT:     {nothing, nothing, 0, 0},
	unix.SYS_RENAMEAT2:   {nothing, nothing, nothing, nothing, 0},
	unix.SYS_KILL:        {0x7ffffffe, 0},
	unix.SYS_UMASK:       {0o22},
	unix.SYS_INIT_MODULE: {nothing, 0, nothing},
}
