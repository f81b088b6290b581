package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"aether/internal/host/confine"
	"aether/internal/host/spawn"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// objects are what a helper process in the cell makes for all that are restored
// there: files without a name, sockets, and what must be opened in the cell's
// namespaces and with the rights of its processes, not by this program.
type objects struct {
	by       *Process // in whose name they are made
	contents []*Content
	paths    []Descriptor // that are opened by their targets, without waiting
	sockets  []*SocketState
	seen     map[int]bool // the descriptors' objects

	script *spawn.Script
	first  int // the descriptor that is made first
	count  int // how many are made
	// What was made, counted from the first.
	contentAt map[*Content]int
	pathAt    []int
	socketAt  map[uint64]int // by inode
	copies    []transfer
	resets    []spawn.Step // that wait until connections have been reset
}

// madeObjects are those that were made.
type madeObjects struct {
	contents map[*Content]*os.File
	sockets  map[uint64]*os.File // by inode
	opened   map[int]*os.File    // by the descriptors' object
}

// makeObjects has a helper make what there is to make.
func (r *FileRestorer) makeObjects(ready func() error) error {
	o, err := r.collectObjects()
	if err != nil || o.empty() {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	return r.runHelper(o)
}

// checkObjects refuses what could not be made.
func (r *FileRestorer) checkObjects() error {
	o, err := r.collectObjects()
	if err != nil || o.empty() {
		return err
	}
	script, err := spawn.NewLongScript(o.size())
	if err != nil {
		return err
	}
	if err := o.write(script); err != nil {
		return errors.Join(o.unable(err), script.Free())
	}
	return script.Free()
}

func (r *FileRestorer) collectObjects() (*objects, error) {
	o := &objects{seen: map[int]bool{}, contentAt: map[*Content]int{}, socketAt: map[uint64]int{}}
	for _, p := range r.checkpoint.Processes {
		for _, m := range p.Mappings {
			if m.Content != nil {
				if err := o.addContent(p, m.Content); err != nil {
					return nil, err
				}
			}
		}
		for _, d := range p.Descriptors {
			if o.seen[d.Object] {
				continue
			}
			o.seen[d.Object] = true
			if err := o.addDescriptor(p, d, r.cell.HostNetwork()); err != nil {
				return nil, err
			}
		}
	}
	return o, o.checkPeers()
}

func (o *objects) addDescriptor(p *Process, d Descriptor, hostNetwork bool) error {
	switch {
	case d.Content != nil:
		return o.addContent(p, d.Content)
	case d.Socket != nil:
		if hostNetwork && (d.Socket.Bound() || d.Socket.Reset) {
			return p.refuse("has descriptor %d open on a socket with an address of the host's network", d.Number)
		}
		o.sockets = append(o.sockets, d.Socket)
	case d.Kind == Virtual && !d.terminal():
		o.paths = append(o.paths, d)
	default:
		return nil
	}
	return o.inNameOf(p)
}

func (o *objects) addContent(p *Process, c *Content) error {
	if slices.Contains(o.contents, c) {
		return nil
	}
	o.contents = append(o.contents, c)
	return o.inNameOf(p)
}

// inNameOf notes in whose name things are made. One process makes them all, so all
// who want some must be alike.
func (o *objects) inNameOf(p *Process) error {
	if o.by == nil {
		o.by = p
	}
	if !sameUser(o.by.Place, p.Place) {
		return p.refuse("has sockets or memory to share, and another user than the cell's other processes")
	}
	return nil
}

func (o *objects) empty() bool { return len(o.contents)+len(o.paths)+len(o.sockets) == 0 }

func (o *objects) socket(inode uint64) *SocketState {
	i := slices.IndexFunc(o.sockets, func(s *SocketState) bool { return s.Inode == inode })
	if i < 0 {
		return nil
	}
	return o.sockets[i]
}

// checkPeers refuses connections of which only one end is in the cell's processes.
func (o *objects) checkPeers() error {
	for _, s := range o.sockets {
		if s.Peer != 0 && o.socket(s.Peer) == nil {
			return o.by.refuse("has a unix socket whose other end no process of the cell has open")
		}
	}
	return nil
}

// Size is how many steps and bytes of a script write takes at most.
func (o *objects) size() (steps, bytes int) {
	const perSocket = 64
	for _, c := range o.contents {
		steps += c.steps()
		bytes += c.bytes()
	}
	for _, d := range o.paths {
		steps++
		bytes += len(d.Target) + 16
	}
	for _, s := range o.sockets {
		steps += perSocket + len(s.Queue)
		bytes += 2048
		for _, m := range s.Queue {
			bytes += len(m) + 8
		}
	}
	return steps, bytes
}

// write appends the steps of the helper, which has the copies of contents from
// confine.FirstInput on. What is made has the descriptors after them.
func (o *objects) write(script *spawn.Script) error {
	o.script, o.first = script, confine.FirstInput+len(o.contents)
	for i, c := range o.contents {
		o.contentAt[c] = o.next()
		o.copies = append(o.copies, c.recreate(script, uintptr(confine.FirstInput+i), o.at(o.contentAt[c]))...)
	}
	for _, d := range o.paths {
		script.Call(unix.SYS_OPENAT, here, script.String(d.Target), uintptr(d.Flags|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK), 0)
		o.pathAt = append(o.pathAt, o.next())
	}
	return o.writeSockets()
}

// next counts a descriptor that a step makes.
func (o *objects) next() int {
	o.count++
	return o.count - 1
}

func (o *objects) at(made int) uintptr { return uintptr(o.first + made) }

// runHelper has everything made.
func (r *FileRestorer) runHelper(o *objects) error {
	helper := confine.Helper{Who: o.by.Place.credentials(), Dir: o.by.Place.Dir, Group: r.group}
	for _, c := range o.contents {
		helper.Inputs = append(helper.Inputs, c.file)
	}
	helper.Steps, helper.Bytes = o.size()
	var unable error
	helper.Write = func(s *spawn.Script) int {
		unable = o.write(s)
		return o.count
	}
	helper.Check = func() error { return errors.Join(unable, checkCopied(o.copies), o.checkReset()) }
	files, err := r.cell.RunHelper(helper)
	if err != nil {
		return o.unable(err)
	}
	return r.takeObjects(o, files)
}

func (r *FileRestorer) takeObjects(o *objects, files []*os.File) (err error) {
	r.given = append(r.given, files...)
	r.made = madeObjects{map[*Content]*os.File{}, map[uint64]*os.File{}, map[int]*os.File{}}
	for content, i := range o.contentAt {
		r.made.contents[content] = files[i]
	}
	for inode, i := range o.socketAt {
		r.made.sockets[inode] = files[i]
		if o.socket(inode) == nil {
			err = errors.Join(err, files[i].Close()) // the end that is closed in the source, too
		}
	}
	for n, i := range o.pathAt {
		r.made.opened[o.paths[n].Object] = files[i]
	}
	return err
}

// unable says that something could not be made.
func (o *objects) unable(err error) error {
	return &sandbox.Error{Class: sandbox.Conflict, Op: "fork", Remedy: "an engine of whole machines can",
		Reason: fmt.Sprintf("what process %d holds could not be made again", o.by.NSPid()), Err: err}
}
