package pid1

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"aether/internal/host/guestinit"
	"aether/internal/host/netdev"
)

// network is the device of a machine whose packets its host takes, over a connection to
// this process: a machine has no other.
type network struct {
	mu      sync.Mutex
	tap     netdev.Tap
	device  *os.File // nil while there is none
	stream  net.Conn
	carried chan struct{} // closed when nothing is carried over stream any more
}

// join has the connection of a request carry packets from now on, instead of the one
// before it. The device stays if it is the same that the host wants.
func (n *network) join(w http.ResponseWriter, r *http.Request) {
	var tap netdev.Tap
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxControl))
	if err == nil {
		err = json.Unmarshal(body, &tap)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		err = n.have(tap)
	}
	if err != nil {
		status := http.StatusUnprocessableEntity
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			status = http.StatusNotImplemented // this kernel has no such device
		}
		http.Error(w, err.Error(), status)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	_, err = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + packetsProtocol + "\r\n\r\n"))
	if err = errors.Join(err, conn.SetDeadline(time.Time{})); err != nil {
		conn.Close()
		return
	}
	n.stream, n.carried = conn, make(chan struct{})
	go carry(n.device, conn, buffered, n.carried)
}

// have makes the device. One that differs goes first, with its connections: its address is
// another's now.
func (n *network) have(tap netdev.Tap) (err error) {
	if err := n.rest(); err != nil {
		return err
	}
	if n.device != nil && n.tap == tap {
		return n.device.SetReadDeadline(time.Time{})
	}
	if err := n.remove(); err != nil {
		return err
	}
	n.device, err = tap.OpenHere()
	n.tap = tap
	return err
}

// rest ends what is carried.
func (n *network) rest() error {
	if n.stream == nil {
		return nil
	}
	n.stream.Close()
	err := n.device.SetReadDeadline(time.Unix(1, 0))
	<-n.carried
	n.stream = nil
	return err
}

// remove takes the device away, of which nothing is carried.
func (n *network) remove() error {
	if n.device == nil {
		return nil
	}
	err := n.device.Close()
	n.device = nil
	return errors.Join(err, guestinit.CloseConnections())
}

// leave has the machine be without a device.
func (n *network) leave([]byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(n.rest(), n.remove())
}

// carry has packets go both ways until either ends.
func carry(device *os.File, conn net.Conn, from io.Reader, carried chan<- struct{}) {
	defer close(carried)
	received := make(chan struct{})
	go func() {
		defer close(received)
		_ = netdev.Receive(from, device)            // its host knows why
		_ = device.SetReadDeadline(time.Unix(1, 0)) // or it is closed
	}()
	_ = netdev.Send(device, conn)
	conn.Close()
	<-received
}
