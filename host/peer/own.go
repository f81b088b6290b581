package peer

import (
	"errors"
	"net"
	"os"
)

// Own is a listener that gives only the connections of this program's own user.
// Others are closed without a word: whoever can connect to a socket of mode 0600
// and is somebody else has no business here.
type Own struct{ *net.UnixListener }

// Accept waits for a connection of this user.
func (l Own) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := UID(conn)
		if err == nil && uid == os.Geteuid() {
			return conn, nil
		}
		if closed := conn.Close(); errors.Is(err, errors.ErrUnsupported) {
			return nil, errors.Join(err, closed)
		}
	}
}
