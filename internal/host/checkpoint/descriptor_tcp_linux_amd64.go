package checkpoint

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tcpEnds tells the sockets of connections apart.
type tcpEnds struct{ local, remote netip.AddrPort }

// loopbackConnection is one over the loopback of the cell, until it is known whether a
// process of the cell has its other end.
type loopbackConnection struct {
	socket  *SocketState
	peer    uint64 // inode
	refusal error
}

// decideLater keeps a connection over the loopback until all processes have been read. If
// none of them has its other end, it comes from outside of the cell, by somebody who reached
// in, and leads out as any other. What nobody has open is refused at once, for it may still
// have something to deliver, and so is what is of the host's network.
func (k *SharedObjects) decideLater(p *Tracee, s *SocketState, refusal error) (err error) {
	own, err := p.hasOwnNetwork()
	if err != nil || !own {
		return errors.Join(err, refusal)
	}
	if k.tcp == nil {
		if k.tcp, err = tcpSockets(p.PID); err != nil {
			return err
		}
	}
	peer := k.tcp[tcpEnds{endOf(s.Family, s.Remote), endOf(s.Family, s.Local)}]
	if peer == 0 {
		return refusal
	}
	k.undecided = append(k.undecided, loopbackConnection{s, peer, refusal})
	return nil
}

// decide closes the connections whose other ends are elsewhere, and refuses the others.
func (k *SharedObjects) decide() error {
	for _, c := range k.undecided {
		if k.sockets[c.peer] {
			return c.refusal
		}
		c.socket.Reset = true
	}
	return nil
}

// hasOwnNetwork says that the process is not in this program's net namespace.
func (p *Tracee) hasOwnNetwork() (bool, error) {
	var theirs, ours unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", p.PID), &theirs)
	if err = errors.Join(err, unix.Stat("/proc/thread-self/ns/net", &ours)); err != nil {
		return false, os.NewSyscallError("stat", err)
	}
	return theirs.Ino != ours.Ino, nil
}

// endOf is the address of a socket of the internet.
func endOf(family int, address []byte) netip.AddrPort {
	host, ok := netip.AddrFromSlice(hostOf(family, address))
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(host.Unmap(), binary.BigEndian.Uint16(address[2:]))
}

// tcpSockets are the inodes of the sockets of a process's net namespace, zero for those
// that nobody has open.
func tcpSockets(pid int) (map[tcpEnds]uint64, error) {
	found := map[tcpEnds]uint64{}
	for _, name := range []string{"tcp", "tcp6"} {
		text, err := readProc(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // the kernel does without
		}
		if err == nil {
			err = parseTCPSockets(string(text), found)
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// parseTCPSockets reads a line of headings, and others as
// "0: 0100007F:1F90 0100007F:B2C4 01 00000000:00000000 00:00000000 00000000 1000 0 4321 ...".
func parseTCPSockets(text string, found map[tcpEnds]uint64) error {
	const local, remote, inode = 1, 2, 9
	_, lines, _ := strings.Cut(text, "\n")
	for line := range strings.Lines(lines) {
		fields := strings.Fields(line)
		if len(fields) <= inode {
			return fmt.Errorf("checkpoint: a socket is %.200q", line)
		}
		from, err := parseEnd(fields[local])
		to, bad := parseEnd(fields[remote])
		number, wrong := strconv.ParseUint(fields[inode], 10, 64)
		if err := errors.Join(err, bad, wrong); err != nil {
			return fmt.Errorf("checkpoint: a socket is %.200q: %w", line, err)
		}
		found[tcpEnds{from, to}] = number
	}
	return nil
}

// parseEnd reads an address in words, as this machine has them, and a port.
func parseEnd(text string) (netip.AddrPort, error) {
	words, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(words)
	number, bad := strconv.ParseUint(port, 16, 16)
	if len(raw) != 4 && len(raw) != 16 {
		bad = errors.Join(bad, strconv.ErrSyntax)
	}
	if err := errors.Join(err, bad); err != nil {
		return netip.AddrPort{}, err
	}
	for word := raw; len(word) > 0; word = word[4:] {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	host, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(host.Unmap(), uint16(number)), nil
}
