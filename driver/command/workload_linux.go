package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"aether/driver/guestagent"
	"aether/guest/channel"
	"aether/internal/host/cgroup"
	"aether/internal/host/idrange"
	"aether/internal/host/inroot"
	"aether/internal/host/launch"
	"aether/internal/host/upperdir"
	"aether/network"
	"aether/sandbox"
)

// bootTime bounds how long a sandbox may take whose caller set no bound.
const bootTime = 30 * time.Second

// workload is a sandbox: the system's program, with which everything inside ends.
type workload struct {
	engine  *engine
	limits  sandbox.Limits
	group   *cgroup.Group // nil where there are none
	monitor *launch.Process
	root    *inroot.Root
	upper   *os.File       // what is written over the image; nil if the system is Opaque
	owner   upperdir.Owner // that its files have inside
	pipes   *guestagent.Pipes
	network *network.Attached // nil for one without, or with the host's
}

// beginning is what a program is to begin with.
type beginning struct {
	config  []byte
	join    join
	network sandbox.Network
	key     network.AuthorityKey // of what it goes on from, or nil
}

// join is how the guest service is met.
type join func(context.Context, *guestagent.Pipes) (*channel.Dialer, error)

// boot starts the program and meets the guest service in it. A failure leaves
// nothing.
func (b *workload) boot(ctx context.Context, program launch.Program, with beginning) (_ *channel.Dialer, err error) {
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if b.pipes, err = guestagent.NewPipes(); err != nil {
		return nil, err
	}
	dialer, err := b.begin(ctx, program, with)
	switch {
	case err == nil:
		return dialer, nil
	case b.monitor == nil:
		return nil, errors.Join(err, b.pipes.Close())
	}
	return nil, errors.Join(err, b.discard())
}

// begin starts the program, which waits for its configuration until its stage is opened: it
// may put other things in the stage's place. Systems whose program takes a device have their
// network before it too, and others when they live.
func (b *workload) begin(ctx context.Context, program launch.Program, with beginning) (*channel.Dialer, error) {
	config, later, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	connectsFirst := b.engine.system.TakesDevice && with.network.Mode.Filtered()
	err = errors.Join(b.launch(program, config), config.Close())
	if err == nil {
		err = b.openStage()
	}
	if err == nil && connectsFirst {
		err = b.connect(ctx, with.network, with.key)
	}
	if err == nil {
		err = configure(ctx, later, with.config)
	}
	if err = errors.Join(err, later.Close()); err != nil {
		return nil, err
	}
	dialer, err := b.meet(ctx, with.join)
	if err == nil && !connectsFirst {
		err = b.connect(ctx, with.network, with.key)
	}
	if err != nil {
		return nil, err
	}
	return dialer, b.settle(ctx, dialer.Dial)
}

// configure gives a program its configuration. One that has ended is for meet to explain.
func configure(ctx context.Context, to *os.File, config []byte) error {
	deadline, _ := ctx.Deadline()
	if err := to.SetWriteDeadline(deadline); err != nil {
		return err
	}
	switch _, err := to.Write(config); {
	case errors.Is(err, syscall.EPIPE):
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return context.DeadlineExceeded
	default:
		return err
	}
}

func (b *workload) launch(program launch.Program, config *os.File) (err error) {
	program.Files = append(program.Files, append(b.pipes.Child(), config)...)
	if b.engine.system.Seals {
		file, err := b.engine.copy.open(b.engine.tools.program)
		if err != nil {
			return errors.Join(err, b.pipes.Started())
		}
		defer file.Close()
		program.Files = append(program.Files, file)
	}
	b.monitor, err = b.engine.host.Start(program)
	return errors.Join(err, b.pipes.Started())
}

func (b *workload) meet(ctx context.Context, join join) (_ *channel.Dialer, err error) {
	// Another program has been executed, so this program's memory is out of the group.
	if err := b.engine.groups.limit(b.group, b.limits); err != nil {
		return nil, err
	}
	return join(ctx, b.pipes)
}

// openStage opens what is looked at later. The stage is there before the program is.
func (b *workload) openStage() (err error) {
	awaitOpen(b.monitor.Pid())
	on := func(place string) string { return fmt.Sprintf("/proc/%d/root%s", b.monitor.Pid(), place) }
	if b.root, err = inroot.Open(on(b.engine.host.Root())); err != nil || b.engine.system.Opaque {
		return err
	}
	if b.upper, err = os.Open(on(b.engine.host.Upper())); err != nil {
		return err
	}
	b.owner = func(uint32, uint32) (int, int, error) { return UserID, UserID, nil }
	if !b.engine.host.Single {
		b.owner, err = idrange.Inside(b.monitor.Pid())
	}
	return err
}

// awaitOpen waits until an ordinary user may look into a process that has just executed its
// program: the kernel says that it has left this program's memory a moment before it gets
// its own, and until then it is closed. What is closed for longer is told by who opens it.
func awaitOpen(pid int) {
	const look, patience = 100 * time.Microsecond, 2 * time.Second
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(look) {
		if _, err := os.Readlink(fmt.Sprintf("/proc/%d/root", pid)); !errors.Is(err, syscall.EACCES) {
			return
		}
	}
}

// discard ends what boot began.
func (b *workload) discard() error {
	err := b.Kill()
	b.Wait()
	return errors.Join(err, b.closeFiles())
}

func (b *workload) closeFiles() error {
	err := errors.Join(b.pipes.Close(), b.network.Leave())
	if b.root != nil {
		err = errors.Join(err, b.root.Close())
	}
	if b.upper != nil {
		err = errors.Join(err, b.upper.Close())
	}
	return err
}

// Kill implements guestagent.Workload. The group goes first, because it also lets go on
// what is paused.
func (b *workload) Kill() (err error) {
	if b.group != nil {
		err = b.group.Kill(context.Background())
	}
	if killed := b.monitor.Signal(syscall.SIGKILL); !errors.Is(killed, syscall.ESRCH) {
		err = errors.Join(err, killed)
	}
	return err
}

// Wait implements guestagent.Workload.
func (b *workload) Wait() sandbox.Exit {
	status, err := b.monitor.Wait()
	if b.group.OutOfMemory() {
		return sandbox.Exit{Cause: sandbox.OutOfMemory, Detail: "the memory limit was reached"}
	}
	detail := fmt.Sprintf("%s ended (code %d): %s", b.engine.system.Program, status.Code, b.pipes.Said())
	if err != nil {
		detail = err.Error()
	}
	return sandbox.Exit{Cause: sandbox.Crashed, Detail: detail}
}

// Release implements guestagent.Workload.
func (b *workload) Release(ctx context.Context) error {
	err := b.closeFiles()
	if b.group != nil {
		err = errors.Join(err, b.group.Remove(ctx))
	}
	return err
}

// Stats implements guestagent.Workload.
func (b *workload) Stats(context.Context) (sandbox.Stats, error) {
	stats, err := b.engine.groups.stats(b.group, b.limits)
	if b.engine.system.Opaque {
		stats.Processes, stats.ForksDenied = nil, nil // are the program's own
	}
	if err != nil || b.engine.system.Opaque {
		return stats, err
	}
	total, free, err := b.root.Usage()
	if err != nil {
		return stats, err
	}
	used, left := int64(total-free), int64(free)
	stats.DiskBytes, stats.DiskFreeBytes = &used, &left
	return stats, nil
}
