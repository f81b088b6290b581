package nat

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"

	"golang.org/x/sys/unix"
)

// ownerFlag has a table go with the socket that made it (NFT_TABLE_F_OWNER, Linux 5.12).
const ownerFlag = 2

// ownTable makes a table of a name that no other has, which goes with the connection that
// comes with it.
func ownTable(name string) (_ *nftables.Conn, _ *nftables.Table, err error) {
	var socket *netlink.Conn
	tables, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error { socket = c; return nil }))
	if err != nil {
		return nil, nil, err
	}
	if err := makeOwned(socket, name); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("a table that goes with its owner: %w", err), tables.CloseLasting())
	}
	return tables, &nftables.Table{Name: name, Family: nftables.TableFamilyIPv4}, nil
}

// makeOwned is what the library has no way to say.
func makeOwned(socket *netlink.Conn, name string) error {
	encoder := netlink.NewAttributeEncoder()
	encoder.ByteOrder = binary.BigEndian
	encoder.String(unix.NFTA_TABLE_NAME, name)
	encoder.Uint32(unix.NFTA_TABLE_FLAGS, ownerFlag)
	attributes, err := encoder.Encode()
	if err != nil {
		return err
	}
	const batch = unix.NFNL_SUBSYS_NFTABLES
	message := func(kind netlink.HeaderType, flags netlink.HeaderFlags, family byte, resource uint16, data []byte) netlink.Message {
		head := []byte{family, unix.NFNETLINK_V0, byte(resource >> 8), byte(resource)}
		return netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request | flags}, Data: append(head, data...)}
	}
	sent, err := socket.SendMessages([]netlink.Message{
		message(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, batch, nil),
		message(batch<<8|unix.NFT_MSG_NEWTABLE, netlink.Acknowledge|netlink.Create|netlink.Excl, unix.NFPROTO_IPV4, 0, attributes),
		message(unix.NFNL_MSG_BATCH_END, 0, unix.AF_UNSPEC, batch, nil),
	})
	if err != nil {
		return err
	}
	answers, err := socket.Receive()
	if err == nil && (len(answers) == 0 || answers[0].Header.Sequence != sent[1].Header.Sequence) {
		err = errors.New("the kernel has not answered")
	}
	return err
}
