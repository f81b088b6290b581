package neighbourtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"aether/internal/host/guestinit"
)

// life is how long the program stays at most, whoever forgets it.
const life = 5 * time.Minute

// kind is something that one process can take and another may meet.
type kind struct {
	// hold takes it and adds what lets go of it.
	hold func(h *held, arg string) error
	// meet fails with errMet if somebody else has it, or with what the kernel said.
	meet func(arg string) error
}

// errMet is what a neighbour's doing looks like where no system call fails.
var errMet = errors.New("it is there")

// held is what was taken.
type held struct {
	count int // of a flood
	seen  []func() bool
	undo  []func()
}

func (h *held) later(undo func()) { h.undo = append(h.undo, undo) }

func (h *held) free() {
	for i := len(h.undo) - 1; i >= 0; i-- {
		h.undo[i]()
	}
	*h = held{}
}

var kinds = map[string]kind{
	"flock": {holdFlock, meetFlock}, "posix": {holdLock(unix.F_SETLK), meetLock(unix.F_GETLK)},
	"ofd": {holdLock(unix.F_OFD_SETLK), meetLock(unix.F_OFD_GETLK)}, "lease": {holdLease, meetLease},
	"inotify": {holdInotify, nil}, "dnotify": {holdDnotify, nil}, "fanotify": {holdFanotify, nil},
	"abstract": {holdAbstract, meetAbstract}, "sysv": {holdSystemV, meetSystemV}, "mqueue": {holdQueue, meetQueue},
	"shm": {holdShared, meetShared}, "process": {nil, meetProcess}, "pid": {nil, meetPid},
	"instances": {floodInstances, meetInstances}, "pipes": {floodPipes, meetPipes}, "inflight": {floodInFlight, meetInFlight},
	"signals": {floodSignals, meetSignals}, "queues": {floodQueues, meetQueues}, "processes": {floodProcesses, meetProcesses},
	"keys": {floodKeys, meetKeys}, "aio": {floodAIO, meetAIO},
}

// Serve answers orders until there are no more.
func Serve(in io.Reader, out io.Writer) error {
	var h held
	defer h.free()
	guestinit.MakeThreads(spareThreads)
	time.AfterFunc(life, func() { panic("neighbourtest: nobody ended this program") })
	scan := bufio.NewScanner(in)
	for scan.Scan() {
		if _, err := fmt.Fprintln(out, strings.ReplaceAll(h.answer(scan.Text()), "\n", " ")); err != nil {
			return err
		}
	}
	return scan.Err()
}

func (h *held) answer(order string) string {
	verb, rest, _ := strings.Cut(order, " ")
	name, arg, _ := strings.Cut(rest, " ")
	k := kinds[name]
	switch {
	case verb == "free":
		h.free()
		return "ok"
	case verb == "look":
		return h.look()
	case verb == "use":
		return taken(0, use(rest))
	case verb == "hold" && k.hold != nil:
		err := k.hold(h, arg)
		return taken(h.count, err)
	case verb == "meet" && k.meet != nil:
		return found(k.meet(arg))
	}
	return "no such order: " + order
}

func taken(count int, err error) string {
	if err != nil {
		return "refused " + err.Error()
	}
	return fmt.Sprintf("ok %d", count)
}

// lacking are errors of the kernel that say that something is used up.
var lacking = []error{unix.EAGAIN, unix.EMFILE, unix.ENFILE, unix.ENOSPC, unix.ENOMEM, unix.EDQUOT, unix.ETOOMANYREFS}

// found tells what a neighbour has taken from what nobody may have.
func found(err error) string {
	if errors.Is(err, errMet) {
		return "met " + err.Error()
	}
	for _, errno := range lacking {
		if errors.Is(err, errno) {
			return "met " + err.Error()
		}
	}
	return fmt.Sprint("free ", err)
}

func (h *held) look() string {
	met := false
	for _, seen := range h.seen {
		met = seen() || met
	}
	if met {
		return "met"
	}
	return "free"
}

// use does with a program what others might notice.
func use(path string) error {
	fd, err := opened(path, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.Read(fd, make([]byte, 1)); err != nil {
		return err
	}
	return exec.Command(path).Run()
}

// opened opens a file without waiting.
func opened(path string, flags int) (int, error) {
	return unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
}
