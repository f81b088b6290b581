package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"aether/driver/guestagent"
	"aether/internal/host/proctree"
	"aether/sandbox"
)

// Spec is what the sandbox was made of, with its id, and with what it may reach now.
func (i *Instance) Spec() sandbox.Spec {
	spec := i.spec
	if i.body.network != nil {
		spec.Network = i.body.network.Network()
	}
	return spec
}

// Digest is that of its image.
func (i *Instance) Digest() string { return i.digest }

// StageDir is the Dir of its Stage.
func (i *Instance) StageDir() string { return i.body.engine.stageDir() }

// Owner gives the host's ids of the root that its program runs as.
func (i *Instance) Owner() (uid, gid int, err error) {
	info, err := os.Stat(fmt.Sprintf("/proc/%d", i.body.monitor.Pid()))
	if err != nil {
		return 0, 0, err
	}
	stat := info.Sys().(*syscall.Stat_t)
	return int(stat.Uid), int(stat.Gid), nil
}

// Enter runs the system's program once more, beside the one that is the sandbox:
// as the same root, with the same stage before it. Files are its descriptors from
// 3 on. With the context it ends. Errors: NotFound once the sandbox has ended.
func (i *Instance) Enter(ctx context.Context, files []*os.File, args ...string) (err error) {
	spaces, err := i.namespaces()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(spaces)) }()
	cmd, err := i.entering(ctx, len(files), args)
	if err != nil {
		return err
	}
	said := &guestagent.Said{}
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = append(files, spaces...), said, said
	err = run(cmd)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case i.Alive() != nil:
		return i.Alive()
	}
	return fmt.Errorf("%s: %w: %s", i.body.engine.system.Program, err, said)
}

var kinds = []string{"user", "mnt", "pid"}

// namespaces opens those of the program, while it lives: afterwards its number
// could be another's.
func (i *Instance) namespaces() (files []*os.File, err error) {
	for _, kind := range kinds {
		file, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", i.body.monitor.Pid(), kind))
		if err != nil {
			return nil, errors.Join(i.Alive(), err, closeAll(files))
		}
		files = append(files, file)
	}
	if err := i.body.monitor.Signal(0); err != nil {
		return nil, errors.Join(i.Alive(), err, closeAll(files))
	}
	return files, nil
}

func closeAll(files []*os.File) (err error) {
	for _, file := range files {
		err = errors.Join(err, file.Close())
	}
	return err
}

// leftOutput is how long what was entered may hold its output open after its end. It is long:
// this program may be held up for a while, and who has not read all by then has failed.
const leftOutput = 5 * time.Second

// entering is the command, through nsenter: a Go program cannot enter namespaces
// itself, since it has threads. Those to enter follow the caller's files.
func (i *Instance) entering(ctx context.Context, files int, args []string) (*exec.Cmd, error) {
	enter, err := find("nsenter", "install the package util-linux")
	if err != nil {
		return nil, err
	}
	e, all := i.body.engine, []string(nil)
	for n, option := range []string{"user", "mount", "pid"} {
		all = append(all, fmt.Sprintf("--%s=/proc/self/fd/%d", option, 3+files+n))
	}
	if e.host.Single {
		all = append(all, "--preserve-credentials") // they are the only ones
	}
	cmd := exec.CommandContext(ctx, enter, append(append(all, "--", e.tools.program), args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return proctree.KillGroup(cmd.Process.Pid) }
	cmd.WaitDelay = leftOutput
	return cmd, nil
}
