package disk

import "encoding/binary"

// The file system is erofs without compression, as kernels since 5.4 read it:
// a super block, then all inodes with the content of small files behind each,
// then the blocks of everything else.
const (
	blockSize  = 4096
	superStart = 1024
	superSize  = 128
	inodeSize  = 64 // the extended form, which has times and wide owners
	slotSize   = 32 // inodes are numbered by these

	layoutPlain  = 0
	layoutInline = 2
)

// place is where a file lies on the disk.
type place struct {
	seen   bool
	links  uint32
	offset int64 // of the inode
	inline bool  // its content follows the inode
	block  uint32
	body   []byte // attributes, as they follow the inode
}

func (p *place) number() uint64 { return uint64(p.offset / slotSize) }

// plan is the layout of a whole disk.
type plan struct {
	nodes  []*node // in the order of their inodes, the root first
	blocks int64
	meta   int64 // where the inodes end, in blocks
}

// collect lists every file once and counts its names.
func collect(root *node) []*node {
	var list []*node
	var visit func(n *node)
	visit = func(n *node) {
		n.links++
		if n.seen {
			return
		}
		n.seen = true
		list = append(list, n)
		for _, name := range n.names() {
			visit(n.children[name])
		}
		if n.children != nil {
			n.links = 2
		}
	}
	visit(root)
	for _, n := range list {
		for _, child := range n.children {
			if child.children != nil {
				n.links++ // its ".."
			}
		}
	}
	return list
}

// layOut gives everything its place.
func layOut(nodes []*node) (*plan, error) {
	p := &plan{nodes: nodes}
	at := int64(superStart + superSize)
	for _, n := range nodes {
		if n.children != nil {
			n.Size = dirSize(n)
		}
		body, err := packAttrs(n.attrs)
		if err != nil {
			return nil, err
		}
		n.body = body
		at = n.putInode(at)
	}
	p.meta = blocksOf(at)
	p.blocks = p.meta
	for _, n := range nodes {
		if !n.inline && n.hasContent() {
			n.block = uint32(p.blocks)
			p.blocks += blocksOf(n.Size)
		}
	}
	return p, nil
}

// putInode places the inode at or after an offset and gives the end of it.
// Content that follows an inode lies in one block.
func (n *node) putInode(at int64) int64 {
	at = roundUp(at, slotSize)
	head := int64(inodeSize + len(n.body))
	n.inline = n.hasContent() && n.Size < blockSize && head+n.Size <= blockSize
	tail := int64(0)
	if n.inline {
		tail = n.Size
		if (at+head)/blockSize != (at+head+tail-1)/blockSize {
			at = roundUp(at, blockSize)
		}
	}
	n.offset = at
	return at + head + tail
}

func (n *node) hasContent() bool {
	return n.Size > 0 && (n.children != nil || n.IsFile() || n.IsSymlink())
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

func blocksOf(size int64) int64 { return (size + blockSize - 1) / blockSize }

// inode is the extended inode of the file.
func (n *node) inode(number uint32) []byte {
	b := make([]byte, inodeSize, inodeSize+len(n.body))
	layout := uint16(layoutPlain)
	if n.inline {
		layout = layoutInline
	}
	le := binary.LittleEndian
	le.PutUint16(b[0:], 1|layout<<1)
	le.PutUint16(b[2:], attrCount(len(n.body)))
	le.PutUint16(b[4:], uint16(n.Mode))
	le.PutUint64(b[8:], uint64(n.size()))
	le.PutUint32(b[16:], n.block)
	le.PutUint32(b[20:], number)
	le.PutUint32(b[24:], n.UID)
	le.PutUint32(b[28:], n.GID)
	le.PutUint64(b[32:], uint64(floorDiv(n.Modified, 1e9)))
	le.PutUint32(b[40:], uint32(n.Modified-floorDiv(n.Modified, 1e9)*1e9))
	le.PutUint32(b[44:], n.links)
	return append(b, n.body...)
}

// size of pipes and sockets is nothing, whatever their source says.
func (n *node) size() int64 {
	if n.hasContent() {
		return n.Size
	}
	return 0
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// super is the super block.
func (p *plan) super() []byte {
	b := make([]byte, superSize)
	le := binary.LittleEndian
	le.PutUint32(b[0:], 0xe0f5e1e2)
	b[12] = 12 // bits of the block size
	le.PutUint16(b[14:], uint16(p.nodes[0].number()))
	le.PutUint64(b[16:], uint64(len(p.nodes)))
	le.PutUint32(b[36:], uint32(p.blocks))
	copy(b[64:80], "aether")
	return b
}
