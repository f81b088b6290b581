package checkpoint

import (
	"errors"
	"fmt"
	"os"

	"aether/internal/host/confine"
	"aether/internal/host/spawn"
	"aether/sandbox"
)

// objects are what a process of the cell is asked to make for all that are restored
// there: files without a name, sockets, and what only opens in the cell's namespaces
// or shows what its opener may see.
type objects struct {
	Batch
	by      *Process     // in whose name they are made
	paths   []int        // the descriptors' objects that the batch's paths are for
	seen    map[int]bool // objects
	known   map[*Content]bool
	sockets map[uint64]*SocketState
}

// madeObjects are those that were made.
type madeObjects struct {
	contents map[*Content]*os.File
	sockets  map[uint64]*os.File // by inode
	opened   map[int]*os.File    // by object
}

// makeObjects has a process of the cell make what there is to make.
func (r *FileRestorer) makeObjects(ready func() error) error {
	o, err := r.collectObjects()
	if err != nil || o.Empty() {
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
	if err != nil || o.Empty() {
		return err
	}
	script, err := spawn.NewLongScript(o.Size())
	if err != nil {
		return err
	}
	if _, err := o.Write(script, confine.FirstInput); err != nil {
		return errors.Join(o.unable(err), script.Free())
	}
	return script.Free()
}

func (r *FileRestorer) collectObjects() (*objects, error) {
	o := &objects{seen: map[int]bool{}, known: map[*Content]bool{}, sockets: map[uint64]*SocketState{}}
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
		if err := o.inNameOf(p); err != nil {
			return err
		}
		if hostNetwork && d.Socket.Bound() {
			return p.Refuse(fmt.Sprintf("has descriptor %d open on a socket with an address of the host's network", d.Number))
		}
		o.AddSocket(d.Socket)
		o.sockets[d.Socket.Inode] = d.Socket
	case d.Kind == Virtual && !d.terminal():
		if err := o.inNameOf(p); err != nil {
			return err
		}
		o.AddPath(d.Target, d.Flags)
		o.paths = append(o.paths, d.Object)
	}
	return nil
}

func (o *objects) addContent(p *Process, c *Content) error {
	if o.known[c] {
		return nil
	}
	o.known[c] = true
	o.AddContent(c)
	return o.inNameOf(p)
}

// inNameOf notes in whose name things are made. One process makes them all, so all
// who want some must be alike.
func (o *objects) inNameOf(p *Process) error {
	if o.by == nil {
		o.by = p
	}
	if !sameUser(o.by.Place, p.Place) {
		return p.Refuse("has sockets or memory to share, and another user than the cell's other processes")
	}
	return nil
}

// runHelper has everything made.
func (r *FileRestorer) runHelper(o *objects) error {
	who := o.by.Place.credentials(r.cell.Identity())
	helper := confine.Helper{UID: who.UID, GID: who.GID, Groups: who.Groups, Dir: o.by.Place.Dir, Group: r.group, Inputs: o.Inputs(), Check: o.Check}
	helper.Steps, helper.Bytes = o.Size()
	var made *Made
	var unable error
	helper.Write = func(s *spawn.Script) int {
		if made, unable = o.Write(s, confine.FirstInput); unable != nil {
			return 0
		}
		return made.Count
	}
	files, err := r.cell.RunHelper(helper)
	if unable != nil {
		err = unable
	}
	if err != nil {
		return o.unable(err)
	}
	return r.takeObjects(o, made, files)
}

func (r *FileRestorer) takeObjects(o *objects, made *Made, files []*os.File) (err error) {
	r.given = append(r.given, files...)
	r.made = madeObjects{map[*Content]*os.File{}, map[uint64]*os.File{}, map[int]*os.File{}}
	for content, i := range made.Contents {
		r.made.contents[content] = files[i]
	}
	for inode, i := range made.Sockets {
		r.made.sockets[inode] = files[i]
		if o.sockets[inode] == nil {
			err = errors.Join(err, files[i].Close()) // the end that is closed in the source, too
		}
	}
	for n, i := range made.Paths {
		r.made.opened[o.paths[n]] = files[i]
	}
	return err
}

// unable says that something could not be made.
func (o *objects) unable(err error) error {
	return &sandbox.Error{Class: sandbox.Conflict, Op: "fork", Remedy: "an engine of whole machines can",
		Reason: fmt.Sprintf("what process %d holds could not be made again", o.by.NSPid()), Err: err}
}

// checkPeers refuses connections of which only one end is in the cell's processes.
func (o *objects) checkPeers() error {
	for _, s := range o.sockets {
		if s.Peer != 0 && o.sockets[s.Peer] == nil {
			return o.by.Refuse("has a unix socket whose other end no process of the cell has open")
		}
	}
	return nil
}
