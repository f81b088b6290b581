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

	local, remote []byte // addresses, empty if there is none
	backlog       int
	shut          int
	mode          uint32 // of the file that it is bound to
	options       []option
	queue         [][]byte // what it has not read yet
}

// option is one that was set on a socket.
type option struct {
	level, name int
	value       []byte
}
