// Package control is what the program that owns sandboxes and the one that holds their
// gateways say to each other: messages of JSON, bounded, each with at most one
// descriptor, over a connected pair of sockets. Neither believes the other more than it
// has to: the gateways' program reads hostile bytes and may have become hostile itself.
package control

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"

	"aether/internal/host/launch"
	"aether/internal/host/netdev"
	"aether/network/policy"
	"aether/sandbox"
)

// Operations of requests.
const (
	Attach = "attach" // a sandbox with its device
	Set    = "set"    // another policy
	Tell   = "tell"   // at once what was decided, before this is answered
	Detach = "detach"
	Plug   = "plug" // another stream to the device of a sandbox that is attached without

	// Of sandboxes that reach hosts by themselves, and are attached with a socket of
	// datagrams for their questions about names.
	Listen = "listen" // one that takes connections for such
	Admit  = "admit"  // the addresses of a Question which the sandbox may reach; it has no answer
)

// Hello is the first message: how hosts are reached.
type Hello struct {
	Servers []netip.AddrPort        `json:"servers,omitempty"`
	Hosts   map[string][]netip.Addr `json:"hosts,omitempty"`
	// Roots are the certificates, in PEM, of the authorities that hosts are believed by.
	Roots []byte `json:"roots,omitempty"`
}

// Request is one of the owner's.
type Request struct {
	Hello *Hello `json:"hello,omitempty"`
	Seq   uint64 `json:"seq,omitempty"`
	Op    string `json:"op,omitempty"`
	// ID is the sandbox's, as the owner counts them.
	ID     uint64        `json:"id,omitempty"`
	Policy policy.Policy `json:"policy,omitzero"`
	Tap    netdev.Tap    `json:"tap,omitzero"`
	// Key is what the authority of an attached sandbox is made of.
	Key []byte `json:"key,omitempty"`
	// Direct says that the sandbox reaches hosts by itself, and asks for names alone.
	Direct bool `json:"direct,omitempty"`
	// Stream says that packets come over streams, and that the sandbox is attached without
	// one.
	Stream bool `json:"stream,omitempty"`
	// Number is that of the question that Admitted answers.
	Number   uint64       `json:"number,omitempty"`
	Admitted []netip.Addr `json:"admitted,omitempty"`
}

// Message is one of the gateways' program: the answer to a request, or what was decided.
type Message struct {
	Seq       uint64                    `json:"seq,omitempty"`
	Error     string                    `json:"error,omitempty"`
	ID        uint64                    `json:"id,omitempty"`
	Decisions []sandbox.NetworkDecision `json:"decisions,omitempty"`
	// Missed counts decisions that were not told, for there were too many.
	Missed int64 `json:"missed,omitempty"`
	// Authority is the certificate, in PEM, that the sandbox has to trust: in the answer to
	// a policy with rules about requests, and whenever there is another.
	Authority []byte `json:"authority,omitempty"`
	// Question asks which addresses of a name the sandbox may reach from now on.
	Question *Question `json:"question,omitempty"`
	// Unplugged says why a stream has ended.
	Unplugged string `json:"unplugged,omitempty"`
}

// Question is about a name that a sandbox has asked for.
type Question struct {
	Number    uint64       `json:"number"`
	Name      string       `json:"name"`
	Addresses []netip.Addr `json:"addresses"`
}

const maxMessage = 4 << 20

// Conn is one end.
type Conn struct {
	conn    *net.UnixConn
	writing sync.Mutex
}

// New takes a connection.
func New(conn *net.UnixConn) *Conn { return &Conn{conn: conn} }

// Close closes the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Write sends a value, with a file if that is not nil.
func (c *Conn) Write(value any, file *os.File) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return fmt.Errorf("control: a message of %d bytes is too long", len(text))
	}
	text = append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	c.writing.Lock()
	defer c.writing.Unlock()
	if file == nil {
		_, err = c.conn.Write(text)
		return err
	}
	n, _, err := c.conn.WriteMsgUnix(text, launch.Rights(file), nil)
	if err == nil && n < len(text) {
		_, err = c.conn.Write(text[n:])
	}
	return err
}

// Read takes the next message into value, with its file if it has one.
func (c *Conn) Read(value any) (file *os.File, err error) {
	var head [4]byte
	rights := make([]byte, 64)
	n, r, _, _, err := c.conn.ReadMsgUnix(head[:], rights)
	if err != nil {
		return nil, err
	}
	if r > 0 {
		if file, err = launch.Received(rights[:r]); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil && file != nil {
			err = errors.Join(err, file.Close())
			file = nil
		}
	}()
	if n == 0 {
		return file, io.EOF
	}
	if _, err := io.ReadFull(c.conn, head[n:]); err != nil {
		return file, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxMessage {
		return file, fmt.Errorf("control: a message of %d bytes is too long", size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(c.conn, text); err != nil {
		return file, err
	}
	defer clear(text) // it may have secrets
	return file, json.Unmarshal(text, value)
}
