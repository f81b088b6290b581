package checkpoint

// SocketState is what a socket was.
type SocketState struct {
	Family, Type, Protocol int
	Inode                  uint64
	// Peer is the inode of the unix socket that it is connected to. That one may
	// be closed: then Orphan says so.
	Peer   uint64
	Orphan bool
	// Listens says that it waits for connections.
	Listens bool
	// Reset says that it has a connection that nobody else can have, or had one that is
	// over: it is made as one whose peer has reset it. Remote is empty if it was over, or
	// was not made yet.
	Reset bool `json:",omitempty"`

	Local, Remote []byte `json:",omitempty"` // addresses, empty if there is none
	Backlog       int
	Shut          int    // directions that are shut down, 1 for reading, 2 for writing
	Mode          uint32 // of the file that it is bound to
	Options       []SocketOption
	Queue         [][]byte // what it has not read yet
}

// SocketOption is one that was set on a socket.
type SocketOption struct {
	Level, Name int
	Value       []byte
}
