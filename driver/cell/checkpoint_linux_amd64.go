package cell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"aether/guest"
	"aether/image"
	"aether/image/snapshot"
	"aether/internal/host/checkpoint"
	"aether/internal/host/inroot"
	"aether/internal/host/zygote"
	"aether/sandbox"
)

// mostKept: snapshots can keep processes on this architecture.
const mostKept = sandbox.Checkpoint

const (
	checkpointFormat = 2
	// processesName is what the checkpoint is attached to a snapshot as.
	processesName = "processes"
	maxCheckpoint = 256 << 20
)

// processImage is what the processes of a cell were, as it is kept on disk.
type processImage struct {
	Format   int       `json:"format"`
	Commands []command `json:"commands"`
	// Mounts are what the cell was shown of the host.
	Mounts []keptMount `json:"mounts,omitempty"`
	// Processes are those of the commands, and all that they have started.
	Processes *checkpoint.Image `json:"processes"`

	stamps map[string]checkpoint.Stamp
}

// command is one that the guest service of the cell knew.
type command struct {
	guest.Kept
	Streams []*checkpoint.Stream `json:"streams"` // one for each role
}

// takeRunning copies what the cell has written and what its processes are, all at
// one instant.
func (i *instance) takeRunning(ctx context.Context, store *snapshot.Store) (draft *snapshot.Draft, err error) {
	defer i.hold()()
	defer func() {
		if err != nil && draft != nil {
			err = errors.Join(err, draft.Discard())
		}
		err = snapshotError(err)
	}()
	if err := i.Alive(); err != nil {
		return nil, err
	}
	all, err := i.running()
	if err != nil {
		return nil, err
	}
	kept := &processImage{Format: checkpointFormat, Mounts: keptMounts(i.spec.Mounts), stamps: map[string]checkpoint.Stamp{}}
	tree, err := i.checkpointNow(ctx, all, func() error {
		if err := kept.read(i, all); err != nil {
			return err
		}
		return i.standing(ctx, func() (err error) {
			if draft, err = i.takeFiles(ctx, store); err == nil {
				err = i.takeSharedMemory(draft)
			}
			return err
		})
	})
	if err != nil {
		return draft, err
	}
	i.closed = tree.Checkpoint.ClosedConnections()
	streams, err := kept.streams()
	if err == nil {
		err = checkpoint.CheckRestorable(tree.Checkpoint, i.cell, streams)
	}
	if err = errors.Join(err, kept.write(draft, tree, i.cell.Clock())); err != nil {
		return draft, errors.Join(err, tree.Close())
	}
	return draft, i.kept.keep(tree, i.Paused(), i.engine.log)
}

// snapshotError leaves away that what a fork refuses, too, is said to be forked.
func snapshotError(err error) error {
	err = forkError(err)
	var refusal *sandbox.Error
	if !errors.As(err, &refusal) || refusal.Op != "fork" {
		return err
	}
	plain := *refusal
	plain.Op = ""
	return &plain
}

// checkpointNow takes a checkpoint, or the last one if the cell has been paused since.
func (i *instance) checkpointNow(ctx context.Context, all []checkpoint.Running, during func() error) (*zygote.Tree, error) {
	last, current := i.kept.take()
	if !current {
		return i.checkpointRunning(ctx, all, last, during)
	}
	if err := during(); err != nil {
		return nil, errors.Join(err, last.Close())
	}
	return last, nil
}

// standing runs fn while not even a command that is being started runs, where
// that can be had. All that ran when the snapshot began is stopped already.
func (i *instance) standing(ctx context.Context, fn func() error) error {
	if i.engine.groups == nil {
		return fn()
	}
	return i.still(ctx, fn)
}

// read reads what is to be kept besides the checkpoint.
func (c *processImage) read(i *instance, all []checkpoint.Running) error {
	dir, err := i.cell.Root()
	if err != nil {
		return err
	}
	root := inroot.New(dir)
	defer root.Close()
	for p := range i.live.Range {
		if p := p.(*process); !p.orphan {
			if err := c.readCommand(i.service, p.inside); err != nil {
				return err
			}
		}
	}
	for _, r := range all {
		if err := checkpoint.Stamps(r.PID, root, c.stamps); err != nil {
			return err
		}
	}
	return nil
}

// sharedMemory is where in the files of a snapshot memory with a name is: nothing
// else can be there, for it is hidden in a cell.
const sharedMemory = "dev/shm"

func (i *instance) takeSharedMemory(draft *snapshot.Draft) error {
	dir, err := i.cell.SharedMemory()
	if err != nil {
		return err
	}
	defer dir.Close()
	return draft.TakeAlso(dir, sharedMemory)
}

func (c *processImage) readCommand(service *guest.Service, pid int) error {
	kept, files, err := service.Keep(pid)
	if sandbox.ClassOf(err) == sandbox.NotFound {
		return &sandbox.Error{Class: sandbox.Conflict, Op: "snapshot", Retry: true, Err: err,
			Reason: fmt.Sprintf("process %d is being started or has just ended", pid), Remedy: "try again in a moment"}
	}
	if err != nil {
		return err
	}
	one := command{Kept: kept}
	for n, file := range files {
		s, err := checkpoint.ReadStream(file, kept.Roles[n] == guest.Terminal)
		if err != nil {
			return err
		}
		one.Streams = append(one.Streams, s)
	}
	c.Commands = append(c.Commands, one)
	return nil
}

// write attaches everything to the snapshot.
func (c *processImage) write(draft *snapshot.Draft, tree *zygote.Tree, ahead time.Duration) (err error) {
	if c.Processes, err = tree.Encode(draft.Attach, c.stamps, ahead); err != nil {
		return err
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if len(data) > maxCheckpoint {
		return &sandbox.Error{Class: sandbox.Exhausted, Op: "snapshot", Reason: fmt.Sprintf("what its processes hold takes more than %d MiB to tell", maxCheckpoint>>20)}
	}
	file, err := draft.Attach(processesName)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// restoreRunning has the processes of a snapshot go on in a cell that was made of its
// files.
func (i *instance) restoreRunning(ctx context.Context, dir string, rec snapshot.Record) error {
	store, err := i.engine.snapshots.open()
	if err != nil {
		return err
	}
	open := func(name string) (*os.File, error) { return store.OpenAttached(ctx, dir, rec, name) }
	kept, err := readCheckpoint(open)
	if err != nil {
		return err
	}
	if err := i.hasMounts(kept); err != nil {
		return err
	}
	if err := i.catchUp(kept.Processes); err != nil {
		return err
	}
	if err := i.fillSharedMemory(ctx); err != nil {
		return err
	}
	tree, err := zygote.Decode(i.engine.host, i.cell, kept.Processes, open)
	if err != nil {
		return err
	}
	if err = errors.Join(ctx.Err(), kept.checkStarted(tree.Checkpoint.Processes)); err == nil {
		err = i.copyUp(tree)
	}
	if err == nil {
		err = i.restoreError(i.restore(kept, tree))
	}
	return errors.Join(err, tree.Close())
}

// catchUp has the clocks of the cell not be behind what the processes know, as they would
// be after a restart of the host.
func (i *instance) catchUp(processes *checkpoint.Image) error {
	behind, err := processes.Behind()
	if err != nil {
		return err
	}
	return i.cell.Advance(behind)
}

// openLayer opens the files of the snapshot that the cell was made of.
func (i *instance) openLayer() (*inroot.Root, error) {
	return inroot.Open(i.root.Layers[len(i.root.Layers)-1])
}

func (i *instance) fillSharedMemory(ctx context.Context) error {
	layer, err := i.openLayer()
	if err != nil {
		return err
	}
	defer layer.Close()
	dir, err := layer.OpenDir("/" + sharedMemory)
	if err != nil {
		return err
	}
	defer dir.Close()
	return i.cell.FillSharedMemory(ctx, dir)
}

// copyUp makes files of the snapshot the cell's own that processes share as memory.
func (i *instance) copyUp(tree *zygote.Tree) error {
	layer, err := i.openLayer()
	if err != nil {
		return err
	}
	defer layer.Close()
	return tree.Checkpoint.CopyUp(i.cell, func(path string) bool {
		_, err := layer.Stat(path)
		return err == nil
	})
}

// restoreError says what it means that a process did not come to life. What the kernel
// does not take is not said of processes that have lived.
func (i *instance) restoreError(err error) error {
	if err == nil || sandbox.ClassOf(err) != sandbox.Internal {
		return err
	}
	if group := i.group(); group != nil {
		if events, failed := group.Events(); failed == nil && events.OOMKills > 0 {
			return &sandbox.Error{Class: sandbox.Exhausted, Field: "limits.memory_bytes", Reason: "the processes of the snapshot need more memory", Err: err}
		}
	}
	if err = forkError(err); sandbox.ClassOf(err) != sandbox.Internal {
		return err
	}
	return &sandbox.Error{Class: sandbox.Conflict, Field: "snapshot", Reason: "its processes cannot go on here", Remedy: "restore its files alone", Err: err}
}

// checkProcesses says beforehand why the processes of a snapshot cannot go on here.
func checkProcesses(ctx context.Context, from *snapshots, dir string, rec snapshot.Record, root image.Root) error {
	store, err := from.open()
	if err != nil {
		return err
	}
	kept, err := readCheckpoint(func(name string) (*os.File, error) { return store.OpenAttached(ctx, dir, rec, name) })
	if err == nil {
		var look func(string) (fs.FileInfo, bool, error)
		if look, err = lookup(dir, root); err == nil {
			err = kept.Processes.Check(look)
		}
	}
	return errors.Join(err, from.close())
}

func readCheckpoint(open checkpoint.Files) (*processImage, error) {
	file, err := open(processesName)
	if sandbox.ClassOf(err) == sandbox.NotFound {
		return nil, &sandbox.Error{Class: sandbox.Conflict, Field: "snapshot", Reason: "it was taken of files only", Remedy: "restore its files alone", Err: err}
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return parseCheckpoint(io.LimitReader(file, maxCheckpoint))
}

func parseCheckpoint(r io.Reader) (*processImage, error) {
	c := &processImage{}
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(c); err != nil {
		return nil, damaged("%v", err)
	}
	if c.Format != checkpointFormat || c.Processes == nil {
		return nil, damaged("they are of format %d, not %d", c.Format, checkpointFormat)
	}
	for _, one := range c.Commands {
		if err := one.check(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// checkStarted wants every command to have a process, and every process that was started
// from outside to be a command's.
func (c *processImage) checkStarted(list []*checkpoint.Process) error {
	commands := map[int]bool{}
	for _, one := range c.Commands {
		commands[one.Pid] = true
	}
	for _, p := range list {
		if p.Parent != nil || p.Orphan {
			continue
		}
		if !commands[p.NSPid()] {
			return damaged("nobody has started process %d", p.NSPid())
		}
		delete(commands, p.NSPid())
	}
	for pid := range commands {
		return damaged("command %d has no process", pid)
	}
	return nil
}

func (c command) check() error {
	if len(c.Roles) != len(c.Streams) || len(c.Roles) > 3 {
		return damaged("command %d has %d streams for %d roles", c.Pid, len(c.Streams), len(c.Roles))
	}
	for n, s := range c.Streams {
		terminal := c.Roles[n] == guest.Terminal
		if s == nil || terminal && s.Pipe != nil || !terminal && s.Terminal != nil || !slices.Contains(roles, c.Roles[n]) {
			return damaged("a stream of command %d", c.Pid)
		}
	}
	return nil
}

var roles = []guest.Role{guest.Stdin, guest.Stdout, guest.Stderr, guest.Terminal}

func damaged(format string, args ...any) error {
	return &sandbox.Error{Class: sandbox.Invalid, Field: "snapshot", Reason: "its processes are damaged: " + fmt.Sprintf(format, args...),
		Remedy: "take the snapshot again"}
}

var _ origin = (*processImage)(nil)

func (c *processImage) streams() (list []*checkpoint.Stream, err error) {
	for _, one := range c.Commands {
		list = append(list, one.Streams...)
	}
	return list, nil
}

func (c *processImage) adopt(child *instance, p *process, outside map[*checkpoint.Stream]*os.File) error {
	for _, one := range c.Commands {
		if one.Pid != p.inside {
			continue
		}
		files := make([]*os.File, len(one.Streams))
		for n, s := range one.Streams {
			files[n] = outside[s]
		}
		return child.service.AdoptKept(p, one.Kept, files)
	}
	return damaged("nobody has started process %d", p.inside)
}
