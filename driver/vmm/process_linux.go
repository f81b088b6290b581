package vmm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"
)

// environment is all that monitors know of ours.
var environment = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}

// process is a running monitor.
type process struct {
	pid int // of one that is jailed
	// end kills it, and wait waits for its end.
	end  func() error
	wait func() error
	// messages are what the monitor says of itself, and console what the guest's
	// kernel says; monitors mix some of the former into the latter.
	messages, console *tail

	ended chan struct{} // closed when it is gone
	err   error
	over  chan struct{} // closed when nothing will come of the machine any more
}

// firstDescriptor is the first that a process inherits beside its standard ones.
const firstDescriptor = 3

// invocation is how a monitor is started.
type invocation struct {
	argv []string
	env  []string // of one that is jailed, beside what all monitors know
	// dir is where it works: a path that it need not be able to walk.
	dir    string
	user   *syscall.Credential // nil for our own
	alone  bool                // without a network
	attach cgroup.Attach
	// files are inherited, after those by which groups are entered; closes are those
	// that only the process has then.
	files, closes []*os.File
	jailed        bool
}

// start starts the monitor.
func (l invocation) start() (*process, error) {
	defer closeAll(l.closes)
	p := &process{messages: newMessages(), console: newConsole(), ended: make(chan struct{}), over: make(chan struct{})}
	thread, err := spawn.Lasting() // with which the process is killed
	if err != nil {
		return nil, err
	}
	start := l.startFree
	if l.jailed {
		start = l.startJailed
	}
	if err := start(thread, p); err != nil {
		return nil, fmt.Errorf("start %s: %w", l.argv[0], err)
	}
	go func() {
		p.err = p.wait()
		close(p.ended)
	}()
	go func() {
		defer close(p.over)
		select {
		case <-p.ended:
		case <-p.console.halted:
		}
	}()
	return p, nil
}

// startFree starts the monitor with the host's files in sight.
func (l invocation) startFree(on *spawn.Thread, p *process) error {
	groups, err := l.openGroups()
	defer closeAll(groups)
	if err != nil {
		return err
	}
	cmd := l.command(groups)
	cmd.Stdout, cmd.Stderr = p.console, p.messages
	p.wait, p.end = cmd.Wait, func() error { return cmd.Process.Kill() }
	return on.Do(cmd.Start)
}

func closeAll(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}

// openGroups opens the files by which a process enters groups of version 1 once
// more: whoever wraps a descriptor in a file also closes it.
func (l invocation) openGroups() (files []*os.File, err error) {
	for _, fd := range l.attach.Files {
		file, err := os.OpenFile(descriptorPath(fd), os.O_WRONLY, 0)
		if err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}

func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// pipeTime is how long others may keep the output of a monitor that has ended: one that was
// taken over may leave it to them. It is long: this program may be held up for a while, and
// what it has not read by then, why the monitor has ended, is lost.
const pipeTime = 5 * time.Second

func (l invocation) command(groups []*os.File) *exec.Cmd {
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: l.user}
	if l.alone {
		attr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC
	}
	if l.attach.Into >= 0 {
		attr.UseCgroupFD, attr.CgroupFD = true, l.attach.Into
	}
	argv := l.argv
	if len(groups) > 0 {
		argv = enterGroups(len(groups), argv)
	}
	return &exec.Cmd{Path: argv[0], Args: argv, Env: environment, Dir: l.dir, ExtraFiles: append(groups, l.files...), SysProcAttr: attr,
		WaitDelay: pipeTime}
}

// enterGroups puts a shell before a program that enters groups of version 1,
// which only the process itself can do in time. Their descriptors are the first.
func enterGroups(count int, argv []string) []string {
	const script = `for fd in $1; do eval "echo 0 >&$fd" && eval "exec $fd>&-" || exit 126; done; shift; exec "$@"`
	var descriptors []string
	for n := range count {
		descriptors = append(descriptors, strconv.Itoa(firstDescriptor+n))
	}
	return append([]string{"/bin/sh", "-c", script, "sh", strings.Join(descriptors, " ")}, argv...)
}

// isOver says whether it has ended, or its guest halted, or does so soon. Who had no processor
// for longer than that looks once more.
func (p *process) isOver(soon time.Duration) bool {
	select {
	case <-p.over:
		return true
	case <-time.After(soon):
	}
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

func (p *process) kill() error {
	if err := p.end(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
