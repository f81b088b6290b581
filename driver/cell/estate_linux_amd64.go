package cell

import (
	"errors"
	"fmt"
	"os"

	"aether/internal/host/cgroup"
	"aether/internal/host/checkpoint"
	"aether/internal/host/confine"
	"aether/internal/host/inroot"
	"aether/internal/host/spawn"
	"aether/sandbox"
)

// estate is what the processes of a fork's child are given, and may hold
// together as those of the source do: none of it is shared with the source.
type estate struct {
	child   *instance
	twins   []*confine.Twin
	streams []*stream // of the source

	// ours are this program's ends of the child's streams, by those of the
	// source's.
	ours   map[*stream]*os.File
	theirs []*os.File

	root *inroot.Root // the child's, if it has been opened

	made      map[int]*os.File // by the descriptors' object
	pipes     map[uint64][2]*os.File
	taken     map[*os.File]bool // ends of pipes
	filled    map[uint64]bool   // pipes that hold what they held
	terminals map[int]*os.File
	contents  map[*checkpoint.Content]*os.File
	sockets   map[uint64]*os.File
	opened    map[int]*os.File // by object: what a process of the child opened
}

// newEstate makes what processes of the child itself must make, for all of them.
func newEstate(from origin, child *instance, twins []*confine.Twin) (*estate, error) {
	streams, err := from.streams()
	if err != nil {
		return nil, err
	}
	e := &estate{child: child, twins: twins, streams: streams, ours: map[*stream]*os.File{}, made: map[int]*os.File{},
		pipes: map[uint64][2]*os.File{}, taken: map[*os.File]bool{}, filled: map[uint64]bool{}, terminals: map[int]*os.File{},
		contents: map[*checkpoint.Content]*os.File{}, sockets: map[uint64]*os.File{}, opened: map[int]*os.File{}}
	if err := e.makeInside(); err != nil {
		e.closeTheirs()
		return nil, err
	}
	return e, nil
}

// order is what a process of the child is asked to make.
type order struct {
	checkpoint.Batch
	estate  *estate
	by      *confine.Twin // in whose name
	objects []int         // of the paths
	seen    map[int]bool
	known   map[*checkpoint.Content]bool
	socks   map[uint64]*checkpoint.SocketState
}

func (e *estate) makeInside() error {
	o, err := e.order()
	if err != nil || o.Empty() {
		return err
	}
	for _, t := range e.twins {
		if err := t.Arrived(); err != nil {
			return err
		}
	}
	return o.place()
}

// order collects what is to be made.
func (e *estate) order() (*order, error) {
	o := &order{estate: e, seen: map[int]bool{}, known: map[*checkpoint.Content]bool{}, socks: map[uint64]*checkpoint.SocketState{}}
	for _, t := range e.twins {
		if err := o.collect(t); err != nil {
			return nil, err
		}
	}
	return o, o.checkPeers()
}

func (o *order) collect(t *confine.Twin) error {
	for _, m := range t.Mappings {
		if m.Content != nil {
			if err := o.content(t, m.Content); err != nil {
				return err
			}
		}
	}
	for _, d := range t.Descriptors {
		if o.seen[d.Object] {
			continue
		}
		o.seen[d.Object] = true
		if err := o.descriptor(t, d); err != nil {
			return err
		}
	}
	return nil
}

func (o *order) descriptor(t *confine.Twin, d checkpoint.Descriptor) error {
	switch {
	case d.Content != nil:
		return o.content(t, d.Content)
	case d.Socket != nil:
		if err := o.asked(t); err != nil {
			return err
		}
		if o.estate.child.spec.Network.Mode == sandbox.HostNetwork && d.Socket.Bound() {
			return t.Refuse(fmt.Sprintf("has descriptor %d open on a socket with an address of the host's network", d.Number))
		}
		o.AddSocket(d.Socket)
		o.socks[d.Socket.Inode] = d.Socket
	case d.Kind == checkpoint.Virtual && !isTerminal(d):
		if err := o.asked(t); err != nil {
			return err
		}
		o.AddPath(d.Target, d.Flags)
		o.objects = append(o.objects, d.Object)
	}
	return nil
}

func (o *order) content(t *confine.Twin, c *checkpoint.Content) error {
	if o.known[c] {
		return nil
	}
	o.known[c] = true
	o.AddContent(c)
	return o.asked(t)
}

// asked notes in whose name things are made. One process makes them all, so all
// who want some must be alike.
func (o *order) asked(t *confine.Twin) error {
	if o.by == nil {
		o.by = t
	}
	if !sameUser(o.by.Place, t.Place) {
		return t.Refuse("has sockets or memory to share, and another user than the cell's other processes")
	}
	return nil
}

// place has everything made.
func (o *order) place() error {
	e := o.estate
	making := confine.Making{Dir: o.by.Place.Dir, Group: cgroup.Attach{Into: -1}, Inputs: o.Inputs(), Check: o.Check}
	making.UID, making.GID, making.Groups = e.identity(o.by.Place)
	if e.child.group != nil {
		var err error
		if making.Group, err = e.child.group.Attach(true); err != nil {
			return err
		}
	}
	making.Steps, making.Bytes = o.Size()
	var made *checkpoint.Made
	var unable error
	making.Write = func(s *spawn.Script) int {
		if made, unable = o.Write(s, confine.FirstInput); unable != nil {
			return 0
		}
		return made.Count
	}
	files, err := e.child.cell.Make(making)
	if unable != nil {
		err = unable
	}
	if err != nil {
		return o.unable(err)
	}
	e.theirs = append(e.theirs, files...)
	for content, i := range made.Contents {
		e.contents[content] = files[i]
	}
	for inode, i := range made.Sockets {
		e.sockets[inode] = files[i]
		if o.socks[inode] == nil {
			err = errors.Join(err, files[i].Close()) // the end that is closed in the source, too
		}
	}
	for n, i := range made.Paths {
		e.opened[o.objects[n]] = files[i]
	}
	return err
}

// unable says that something could not be made.
func (o *order) unable(err error) error {
	return &sandbox.Error{Class: sandbox.Conflict, Op: "fork", Remedy: "an engine of whole machines can",
		Reason: fmt.Sprintf("what process %d holds could not be made again", o.by.Tid()), Err: err}
}

// checkPeers refuses connections of which only one end is in the cell's
// processes.
func (o *order) checkPeers() error {
	for _, s := range o.socks {
		if s.Peer != 0 && o.socks[s.Peer] == nil {
			return o.by.Refuse("has a unix socket whose other end no process of the cell has open")
		}
	}
	return nil
}

// identity translates the host's ids to the cell's.
func (e *estate) identity(place checkpoint.Place) (uid, gid uint32, groups []uint32) {
	id := e.child.engine.host.Identity
	uid, gid = id.FromHost(place.UID, place.GID)
	for _, group := range place.Groups {
		_, inside := id.FromHost(0, group)
		groups = append(groups, inside)
	}
	return uid, gid, groups
}

func (e *estate) closeTheirs() {
	closed := map[*os.File]bool{}
	for _, f := range e.ours {
		closed[f] = true // not theirs
	}
	for _, f := range e.theirs {
		if !closed[f] {
			closed[f] = true
			f.Close()
		}
	}
	e.theirs = nil
}

func (e *estate) closeOurs() error {
	for _, f := range e.ours {
		f.Close()
	}
	return nil
}
