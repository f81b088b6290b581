package neighbourtest

import (
	"bytes"
	"errors"
	"hash/crc32"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Objects have the name that the order gives.

func holdAbstract(h *held, name string) error {
	listener, err := net.Listen("unix", "@"+name)
	if err == nil {
		h.later(func() { listener.Close() })
	}
	return err
}

func meetAbstract(name string) error {
	conn, err := net.Dial("unix", "@"+name)
	if err != nil {
		return err
	}
	conn.Close()
	return errMet
}

// systemV is a kind of those objects: the call that finds or makes one by its key, with
// two or three arguments, and the one that removes it.
type systemV struct {
	get    uintptr
	size   bool // the second argument is a size or a number, the third are the flags
	remove func(id uintptr)
}

var systemVs = []systemV{
	{get: unix.SYS_SHMGET, size: true, remove: func(id uintptr) { unix.RawSyscall(unix.SYS_SHMCTL, id, unix.IPC_RMID, 0) }},
	{get: unix.SYS_SEMGET, size: true, remove: func(id uintptr) { unix.RawSyscall(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID) }},
	{get: unix.SYS_MSGGET, remove: func(id uintptr) { unix.RawSyscall(unix.SYS_MSGCTL, id, unix.IPC_RMID, 0) }},
}

func (s systemV) open(key, size, flags uintptr) (uintptr, error) {
	args := [3]uintptr{key, flags}
	if s.size {
		args = [3]uintptr{key, size, flags}
	}
	id, _, errno := unix.Syscall(s.get, args[0], args[1], args[2])
	if errno != 0 {
		return 0, errno
	}
	return id, nil
}

func key(name string) uintptr { return uintptr(crc32.ChecksumIEEE([]byte(name)) >> 1) }

func holdSystemV(h *held, name string) error {
	for _, s := range systemVs {
		id, err := s.open(key(name), 1, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
		if err != nil {
			return err
		}
		h.later(func() { s.remove(id) })
	}
	return nil
}

func meetSystemV(name string) error {
	for _, s := range systemVs {
		if _, err := s.open(key(name), 0, 0); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOSYS) {
			return errors.Join(errMet, err)
		}
	}
	return nil
}

// queueAttributes are struct mq_attr.
type queueAttributes struct {
	flags, most, size, now int64
	_                      [4]int64
}

// openQueue takes a name without the slash that libraries have before it.
func openQueue(name string, flags int, attributes *queueAttributes) (int, error) {
	text, err := unix.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(text)), uintptr(flags|unix.O_CLOEXEC), 0o666, uintptr(unsafe.Pointer(attributes)), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func removeQueue(name string) {
	if text, err := unix.BytePtrFromString(name); err == nil {
		unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(text)), 0, 0)
	}
}

// holdQueueOf makes a queue that can hold so many messages of a size.
func (h *held) holdQueueOf(name string, most, size int64) error {
	fd, err := openQueue(name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, &queueAttributes{most: most, size: size})
	if err == nil {
		h.later(func() { removeQueue(name); unix.Close(fd) })
	}
	return err
}

func holdQueue(h *held, name string) error { return h.holdQueueOf(name, 1, 16) }

func meetQueue(name string) error {
	fd, err := openQueue(name, unix.O_RDONLY, nil)
	switch {
	case err == nil:
		unix.Close(fd)
		return errMet
	case errors.Is(err, unix.EACCES):
		return errMet
	}
	return err
}

const sharedDir = "/dev/shm/"

func holdShared(h *held, name string) error {
	err := os.WriteFile(sharedDir+name, nil, 0o666)
	if err == nil {
		h.later(func() { os.Remove(sharedDir + name) })
	}
	return err
}

func meetShared(name string) error {
	if _, err := os.Stat(sharedDir + name); err != nil {
		return err
	}
	return errMet
}

// meetProcess looks for a process that has the mark in its command line or environment.
func meetProcess(mark string) error {
	pid, err := Find(mark)
	if err != nil || pid == 0 {
		return err
	}
	return errMet
}

// Find is the number of a process, other than this one, with the mark as an argument;
// zero is none.
func Find(mark string) (int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, readErr := os.ReadFile(file)
		pid, numberErr := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if readErr == nil && numberErr == nil && pid != os.Getpid() && bytes.Contains(append([]byte{0}, text...), append([]byte{0}, append([]byte(mark), 0)...)) {
			return pid, nil
		}
	}
	return 0, err
}

// meetPid asks whether a process could be signalled.
func meetPid(number string) error {
	pid, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, 0); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	return errMet
}
