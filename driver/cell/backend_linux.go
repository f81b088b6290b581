package cell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"aether/guest"
	"aether/internal/host/cgroup"
	"aether/internal/host/confine"
	"aether/internal/host/proctree"
	"aether/internal/host/spawn"
	"aether/sandbox"
)

// backend is how the guest service, which runs beside a cell, reaches into it.
type backend struct{ *instance }

// Start implements guest.Backend.
func (b backend) Start(ctx context.Context, c guest.Command) (guest.Process, error) {
	if err := b.Alive(); err != nil {
		return nil, err
	}
	command := confine.Command{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, UID: c.UID, GID: c.GID, Groups: c.Groups,
		Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr}
	if c.TTY != nil {
		command.Stdin, command.Stdout, command.Stderr, command.Terminal = c.TTY, c.TTY, c.TTY, true
		if err := b.giveTerminal(c); err != nil {
			return nil, err
		}
	}
	p := &process{cell: b.instance}
	if err := p.account(&command, c.KillTree); err != nil {
		return nil, err
	}
	if c.KillTree && p.sub == nil {
		p.mark = proctree.NewMark()
		command.Env = p.mark.Add(command.Env)
	}
	var err error
	if p.Process, p.inside, err = b.cell.Exec(command); err != nil {
		return nil, joinRemoval(ctx, p.sub, startError(c, err))
	}
	if p.uncounted != nil {
		b.engine.log.Warn("cell: it will not be known of a command whether it runs out of memory", "sandbox", b.ID(), "err", p.uncounted)
	}
	b.live.Store(p, nil)
	return p, nil
}

// giveTerminal makes the command's user the owner of its terminal.
func (b backend) giveTerminal(c guest.Command) error {
	if b.engine.host.Identity.Single {
		return nil
	}
	uid, gid, err := b.HostID(c.UID, c.GID)
	if err != nil {
		return err
	}
	return c.TTY.Chown(uid, gid)
}

// Root implements guest.Backend.
func (b backend) Root() (*os.File, error) { return b.cell.Root() }

// HostID implements guest.Backend.
func (b backend) HostID(uid, gid uint32) (int, int, error) {
	return b.cell.Identity().ToHost(uid, gid)
}

// GuestID implements guest.Backend.
func (b backend) GuestID(uid, gid uint32) (uint32, uint32) {
	return b.cell.Identity().FromHost(uid, gid)
}

// Stats implements guest.Backend.
func (b backend) Stats(ctx context.Context) (sandbox.Stats, error) { return b.instance.Stats(ctx) }

// OpenPTY implements guest.Backend.
func (b backend) OpenPTY() (master, slave *os.File, err error) { return b.cell.OpenPTY() }

// process is a command in a cell.
type process struct {
	*spawn.Process
	cell   *instance
	inside int
	sub    *cgroup.Group // its own, if its whole tree may have to be killed
	mark   proctree.Mark // instead, where there are no cgroups
	killed int64         // out-of-memory kills in the cell when it started
	orphan bool          // the guest service does not know of it

	uncounted error // why killed is not known, or nil
}

// account puts the command into the cell's group, or one of its own in there.
func (p *process) account(command *confine.Command, killTree bool) (err error) {
	group, err := p.cell.occupy()
	if group == nil || err != nil {
		return err
	}
	command.Meanwhile = func() { p.killed, p.uncounted = group.OOMKills() }
	if killTree {
		p.sub, err = group.Sub(fmt.Sprintf("command-%d", p.cell.commands.Add(1)))
		if err == nil {
			group = p.sub
		} else if sandbox.ClassOf(err) != sandbox.Unsupported {
			return err
		}
	}
	command.Group = group.Way()
	return nil
}

// Pid implements guest.Process: the number that the cell knows it by.
func (p *process) Pid() int { return p.inside }

// Signal implements guest.Process.
func (p *process) Signal(signal syscall.Signal) error {
	err := p.Process.Signal(signal)
	if errors.Is(err, syscall.ESRCH) {
		return &sandbox.Error{Class: sandbox.NotFound, Op: "signal", Reason: "the process has ended", Err: err}
	}
	return err
}

// Kill implements guest.Process.
func (p *process) Kill() error {
	switch {
	case p.sub != nil:
		return p.sub.Kill(context.Background())
	case p.mark != "":
		return p.mark.Kill(p.Process.Pid())
	}
	err := p.Process.Signal(syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// Wait implements guest.Process.
func (p *process) Wait() (guest.Status, error) {
	status, err := p.Process.Wait()
	p.cell.live.Delete(p)
	out := guest.Status{Code: status.Code, Signal: status.Signal, OutOfMemory: status.Signal == syscall.SIGKILL && p.outOfMemory()}
	if p.sub != nil {
		// A daemon may be left in the group: then the cell's end removes it.
		now, cancel := context.WithCancel(context.Background())
		cancel()
		if err := p.sub.Remove(now); err != nil && !errors.Is(err, context.Canceled) {
			p.cell.engine.log.Warn("cell: the group of a command could not be removed", "sandbox", p.cell.ID(), "err", err)
		}
	}
	return out, err
}

func (p *process) outOfMemory() bool {
	group := p.cell.group()
	if group == nil {
		return false
	}
	killed, err := group.OOMKills()
	return err == nil && p.uncounted == nil && killed > p.killed
}
