package qemu

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"aether/internal/host/cgroup"
	"aether/internal/host/launch"
	"aether/internal/host/spawn"
)

// process is a running QEMU.
type process struct {
	cmd *exec.Cmd
	// messages are what QEMU says of itself, and console what the guest's kernel
	// says.
	messages, console *tail

	ended chan struct{} // closed when it is gone
	err   error
}

// invocation is how a QEMU is started.
type invocation struct {
	program string
	args    func(inherited) []string
	// Those that are nil, QEMU does without: see inherited.
	disk, kernel, initramfs, state, memory *os.File
	user                                   *syscall.Credential
	attach                                 cgroup.Attach
}

// wires are our ends of what QEMU is connected to.
type wires struct{ monitor, channel, console *net.UnixConn }

func (w wires) close() {
	for _, conn := range []*net.UnixConn{w.monitor, w.channel, w.console} {
		if conn != nil {
			conn.Close()
		}
	}
}

// parents starts processes on one thread that lives as long as the program: they
// are killed when the thread that started them is gone.
var parents = sync.OnceValues(func() (*spawn.Thread, error) {
	return spawn.NewThread(func() error { return nil })
})

// start starts QEMU. The files of the launch stay the caller's.
func (l invocation) start() (_ *process, _ wires, err error) {
	var w wires
	var theirs []*os.File
	defer func() {
		for _, file := range theirs {
			file.Close()
		}
		if err != nil {
			w.close()
		}
	}()
	for _, ours := range []**net.UnixConn{&w.monitor, &w.channel, &w.console} {
		var file *os.File
		if *ours, file, err = launch.SocketPair(); err != nil {
			return nil, w, err
		}
		theirs = append(theirs, file)
	}
	groups, err := l.openGroups()
	theirs = append(theirs, groups...)
	if err != nil {
		return nil, w, err
	}
	cmd, messages := l.command(theirs)
	thread, err := parents()
	if err != nil {
		return nil, w, err
	}
	if err := thread.Do(cmd.Start); err != nil {
		return nil, w, fmt.Errorf("start %s: %w", l.program, err)
	}
	p := &process{cmd: cmd, messages: messages, console: &tail{}, ended: make(chan struct{})}
	go p.await(w.console)
	return p, w, nil
}

// openGroups opens the files by which a process enters groups of version 1 once
// more: whoever wraps a descriptor in a file also closes it.
func (l invocation) openGroups() (files []*os.File, err error) {
	for _, fd := range l.attach.Files {
		file, err := os.OpenFile(descriptorPath+strconv.Itoa(fd), os.O_WRONLY, 0)
		if err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}

// command arranges the descriptors: those of the cgroups first, since shells know
// numbers of one digit only, then the sockets and the files that QEMU reads.
func (l invocation) command(ends []*os.File) (*exec.Cmd, *tail) {
	const first = 3
	var files []*os.File
	add := func(file *os.File) int {
		if file == nil {
			return -1
		}
		files = append(files, file)
		return first + len(files) - 1
	}
	var enter []string
	for _, group := range ends[3:] {
		enter = append(enter, strconv.Itoa(add(group)))
	}
	fds := inherited{monitor: add(ends[0]), channel: add(ends[1]), console: add(ends[2]), disk: add(l.disk),
		kernel: add(l.kernel), initramfs: add(l.initramfs), state: add(l.state), memory: add(l.memory)}
	argv := append([]string{l.program}, l.args(fds)...)
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: l.user}
	if l.attach.Into >= 0 {
		attr.UseCgroupFD, attr.CgroupFD = true, l.attach.Into
	}
	if len(enter) > 0 {
		argv = enterGroups(enter, argv)
	}
	messages := &tail{}
	cmd := &exec.Cmd{Path: argv[0], Args: argv, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Dir: "/",
		ExtraFiles: files, Stdout: messages, Stderr: messages, SysProcAttr: attr}
	return cmd, messages
}

// enterGroups puts a shell before a program that enters groups of version 1,
// which only the process itself can do in time.
func enterGroups(descriptors, argv []string) []string {
	const script = `for fd in $1; do eval "echo 0 >&$fd" && eval "exec $fd>&-" || exit 126; done; shift; exec "$@"`
	return append([]string{"/bin/sh", "-c", script, "sh", strings.Join(descriptors, " ")}, argv...)
}

func (p *process) await(console *net.UnixConn) {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		p.console.drain(console)
	}()
	err := p.cmd.Wait()
	<-drained
	p.err = err
	close(p.ended)
}

func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
