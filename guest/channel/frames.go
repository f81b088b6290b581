package channel

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/yamux"
)

const (
	// maxStreams bounds the connections of one channel that are open at a time.
	maxStreams = 512
	// writeTime is how long a frame may wait for a guest that does not read, as a
	// paused one does not. Only the connection that it belongs to fails then.
	writeTime = time.Minute
	// closeTime is how long a connection that was closed here waits for the other
	// end to do the same.
	closeTime = 30 * time.Second
)

// config sets what is not about time to be tolerant of guests that are paused:
// nobody is asked whether they live.
func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = maxStreams
	c.EnableKeepAlive = false
	c.StreamOpenTimeout = 0
	c.StreamCloseTimeout = closeTime
	c.ConnectionWriteTimeout = writeTime
	c.LogOutput = io.Discard // every failure also reaches a caller
	return c
}

// stream joins what is left in a reader's buffer to the stream below it.
type stream struct {
	io.Reader
	io.WriteCloser
}

// Frames begin with a header: version, type, flags, stream and length.
const (
	headerSize = 12
	typeAt     = 1
	flagsAt    = 2
	lengthAt   = 8

	dataFrame = 0
	pingFrame = 2
	openFlag  = 1
)

// maxBody is the most that one frame carries: a stream's whole window.
const maxBody = 256 << 10

// guard passes frames on and refuses those that their sender never sends. A guest
// needs it to notice that its host has begun anew in the middle of a frame; a host
// needs it against guests that would make it do what it did not ask for.
type guard struct {
	from   *bufio.Reader
	ofHost bool // only a host opens streams, and nobody pings
	header [headerSize]byte
	unread []byte // of header
	body   int64  // bytes of the frame that are still to come
}

func (g *guard) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(g.unread) == 0 && g.body == 0 {
		if err := g.next(); err != nil {
			return 0, err
		}
	}
	if len(g.unread) > 0 {
		n := copy(p, g.unread)
		g.unread = g.unread[n:]
		return n, nil
	}
	n, err := g.from.Read(p[:min(int64(len(p)), g.body)])
	g.body -= int64(n)
	return n, err
}

func (g *guard) next() error {
	if _, err := io.ReadFull(g.from, g.header[:]); err != nil {
		return err
	}
	kind, flags := g.header[typeAt], binary.BigEndian.Uint16(g.header[flagsAt:])
	length := binary.BigEndian.Uint32(g.header[lengthAt:])
	if kind == pingFrame || flags&openFlag != 0 && !g.ofHost || kind == dataFrame && length > maxBody {
		return fmt.Errorf("channel: the other end sent a frame that it never may: type %d, flags %#x, length %d", kind, flags, length)
	}
	g.unread = g.header[:]
	if kind == dataFrame {
		g.body = int64(length)
	}
	return nil
}
