package storedir

import (
	"errors"
	"net"
	"os"
)

// OwnListener is a listener that gives only the connections of this program's own user.
// Others are closed without a word: whoever can connect to a socket of mode 0600
// and is somebody else has no business here.
type OwnListener struct{ *net.UnixListener }

// Accept waits for a connection of this user.
func (l OwnListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := PeerUID(conn)
		if err == nil && uid == os.Geteuid() {
			return conn, nil
		}
		if closed := conn.Close(); errors.Is(err, errors.ErrUnsupported) {
			return nil, errors.Join(err, closed)
		}
	}
}
