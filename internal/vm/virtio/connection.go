package virtio

import "sync"

// connection is one between a socket of the host and a port of the guest. The transport's
// lock is around all of it but the socket.
type connection struct {
	of                  *sockets
	socket              Socket
	hostPort, guestPort uint32
	welcome             func(uint32) []byte
	// asked: the guest was; answered: it agreed; over: nothing is left of it.
	asked, answered, over bool

	// What the guest has room for: alloc and forwarded are its words, sent ours.
	alloc, forwarded, sent uint32
	readable               *sync.Cond // there is credit, or it is over

	// What the host has not taken yet. received and passed count bytes, ever; told is what
	// the guest knows of passed.
	inbox                  []byte
	received, passed, told uint32
	noMore                 bool // the guest sends nothing any more
	gone                   bool // nor takes anything
	writable               *sync.Cond
}

// packet is one of this connection to the guest.
func (c *connection) packet(op uint16) packet {
	c.told = c.passed
	return packet{from: hostCID, to: c.of.cid, fromPort: c.hostPort, toPort: c.guestPort, kind: kindStream, op: op, alloc: room, forwarded: c.passed}
}

// credit is what the guest has room for, whatever it says.
func (c *connection) credit() uint32 {
	unread := c.sent - c.forwarded
	if unread >= c.alloc {
		return 0
	}
	return c.alloc - unread
}

// take takes what the guest says.
func (c *connection) take(p packet, data []byte) {
	c.alloc, c.forwarded = p.alloc, p.forwarded
	c.readable.Signal()
	switch p.op {
	case opResponse:
		if c.answered {
			c.abort()
			return
		}
		c.answered = true
		go c.write()
		go c.read()
	case opReset:
		c.drop()
	case opShutdown:
		c.noMore = c.noMore || p.flags&noSend != 0
		c.gone = c.gone || p.flags&noReceive != 0
		if !c.answered {
			c.abort()
			return
		}
		c.writable.Signal()
	case opData:
		if !c.answered || c.noMore || uint64(len(c.inbox))+uint64(len(data)) > uint64(room-c.inFlight()) {
			c.abort() // more than it was told that there is room for
			return
		}
		c.received += uint32(len(data))
		c.inbox = append(c.inbox, data...)
		c.writable.Signal()
	case opCredit:
	case opCreditRequest:
		c.of.reply(c.packet(opCredit))
	default:
		c.abort()
	}
}

// inFlight is what is being written to the host.
func (c *connection) inFlight() uint32 { return c.received - c.passed - uint32(len(c.inbox)) }

// abort ends the connection on both sides.
func (c *connection) abort() {
	if !c.over {
		c.of.reply(c.packet(opReset))
	}
	c.drop()
}

// drop ends the connection for the host alone.
func (c *connection) drop() {
	if c.over {
		return
	}
	c.over = true
	c.inbox = nil
	delete(c.of.open, c.hostPort)
	if !c.asked {
		c.of.unasked--
	}
	c.readable.Broadcast()
	c.writable.Broadcast()
	c.of.taken.Broadcast()
	_ = c.socket.Close() // whoever uses it sees its end
}

// giveUp ends a connection that the guest has not answered to.
func (c *connection) giveUp() {
	c.of.transport.mu.Lock()
	defer c.of.transport.mu.Unlock()
	if !c.answered {
		c.drop()
	}
}

// say tells the guest something from outside of the queues' service. The lock is held.
func (c *connection) say(op uint16, flags uint32) {
	t := c.of.transport
	for !c.over && len(c.of.replies) >= maxReplies {
		c.of.taken.Wait()
	}
	if c.over || t.active == nil {
		return
	}
	before := t.doneAll()
	p := c.packet(op)
	p.flags = flags
	c.of.reply(p)
	c.of.settle(before)
}

// write passes on what the guest sends, until it sends no more.
func (c *connection) write() {
	lock := &c.of.transport.mu
	if _, err := c.socket.Write(c.welcome(c.hostPort)); err != nil {
		lock.Lock()
		defer lock.Unlock()
		c.end()
		return
	}
	lock.Lock()
	defer lock.Unlock()
	for {
		for len(c.inbox) == 0 && !c.over && !c.noMore {
			c.writable.Wait()
		}
		if c.over {
			return
		}
		if len(c.inbox) == 0 {
			break
		}
		data := c.inbox
		c.inbox = nil
		lock.Unlock()
		_, err := c.socket.Write(data)
		lock.Lock()
		if c.over {
			return
		}
		if err != nil {
			c.end()
			return
		}
		c.passed += uint32(len(data))
		if c.passed-c.told > room/2 {
			c.say(opCredit, 0)
		}
	}
	_ = c.socket.CloseWrite() // the host may have gone first
	for !c.gone && !c.over {
		c.writable.Wait()
	}
	c.end()
}

// end is abort from outside of the queues' service.
func (c *connection) end() {
	c.say(opReset, 0)
	c.drop()
}

// chunk is how much is read of a socket at once.
const chunk = 16 << 10

// read passes on what the host sends, as much as the guest has room for.
func (c *connection) read() {
	lock := &c.of.transport.mu
	buffer := make([]byte, chunk)
	for {
		lock.Lock()
		for c.credit() == 0 && !c.over {
			c.readable.Wait()
		}
		if c.over {
			lock.Unlock()
			return
		}
		most := min(c.credit(), chunk)
		lock.Unlock()
		n, err := c.socket.Read(buffer[:most])
		lock.Lock()
		c.send(buffer[:n])
		if err != nil {
			c.say(opShutdown, noSend)
			lock.Unlock()
			return
		}
		lock.Unlock()
	}
}

// send gives the guest data, when it takes them. The lock is held.
func (c *connection) send(data []byte) {
	t := c.of.transport
	for len(data) > 0 && !c.over && t.active != nil {
		before := t.doneAll()
		sent, err := c.of.deliver(t.active, c.packet(opData), data)
		if err != nil {
			t.fail()
			return
		}
		t.tell(before)
		if sent < 0 {
			c.of.taken.Wait()
			continue
		}
		c.sent += uint32(sent)
		data = data[sent:]
	}
}
