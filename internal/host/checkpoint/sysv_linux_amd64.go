package checkpoint

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// sysv are the kinds of objects of System V: the call by which a process learns how
// many its ipc namespace has, where that call is told to write, and where in what it
// writes the count is.
var sysv = []struct {
	name  string
	nr    uintptr
	args  []uint64
	place int
	count int
}{
	{"shared memory of System V (shmget)", unix.SYS_SHMCTL, []uint64{0, 14 /* SHM_INFO */, 0}, 2, 0},
	{"semaphores of System V (semget)", unix.SYS_SEMCTL, []uint64{0, 0, 19 /* SEM_INFO */, 0}, 3, 28},
	{"message queues of System V (msgget)", unix.SYS_MSGCTL, []uint64{0, 12 /* MSG_INFO */, 0}, 2, 0},
}

// sysvCalls ask for objects of System V, which belong to no process. refuse
// refuses a process whose cell has some.
func (s *State) sysvCalls() (list []parasiteCall, refuse func() error) {
	var answers [3][64]byte
	var ignored int64
	for i, kind := range sysv {
		list = append(list, parasiteCall{thread: s.threads[0], nr: kind.nr, args: append([]uint64(nil), kind.args...), buffer: answers[i][:],
			bufferArg: kind.place, result: &ignored, unsupported: unix.ENOSYS})
	}
	return list, func() error {
		for i, kind := range sysv {
			if binary.NativeEndian.Uint32(answers[i][kind.count:]) > 0 {
				return s.refuse(false, "is in a cell that has %s", kind.name)
			}
		}
		return nil
	}
}
