package checkpoint

import (
	"encoding/binary"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestUnixSocketsOfOurOwn(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if _, err := unix.Write(pair[0], []byte("four")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Shutdown(pair[0], unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	all, err := unixSockets(os.Getpid())
	if os.Geteuid() != 0 {
		t.Skipf("an ordinary user may not go to net namespaces: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	inode := func(fd int) uint64 {
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil {
			t.Fatal(err)
		}
		return stat.Ino
	}
	a, b := all[inode(pair[0])], all[inode(pair[1])]
	if a.peer != inode(pair[1]) || b.peer != inode(pair[0]) || !a.hasPeer {
		t.Errorf("the peers are %d and %d", a.peer, b.peer)
	}
	if b.waiting != 4 || a.shut != 2 || b.shut != 1 {
		t.Errorf("%d bytes wait; shut down are %d and %d", b.waiting, a.shut, b.shut)
	}
}

func FuzzParseUnixSockets(f *testing.F) {
	message := binary.NativeEndian.AppendUint32(nil, 40)
	message = binary.NativeEndian.AppendUint16(message, unix.SOCK_DIAG_BY_FAMILY)
	message = append(message, make([]byte, 10)...)
	message = append(message, 1, 1, 1, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, diagPeer, 0, 9, 0, 0, 0)
	f.Add(message)
	f.Add(message[:len(message)-3])
	f.Fuzz(func(t *testing.T, data []byte) {
		found := map[uint64]unixSocket{}
		if _, err := parseUnixSockets(data, found); err == nil && len(found) > maxUnixSocket {
			t.Fatalf("%d sockets", len(found))
		}
	})
}
