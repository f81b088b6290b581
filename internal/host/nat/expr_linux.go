package nat

import (
	"net/netip"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"

	"golang.org/x/sys/unix"
)

// Places of addresses in a header of version 4, and of the port in one of TCP or UDP.
const (
	sourceOffset      = 12
	destinationOffset = 16
	portOffset        = 2
)

// first is the register that expressions of one rule pass values in.
const first = 1

// all joins the expressions of a rule.
func all(parts ...[]expr.Any) (rule []expr.Any) {
	for _, p := range parts {
		rule = append(rule, p...)
	}
	return rule
}

// deviceName is a name as the kernel compares it.
func deviceName(name string) []byte {
	text := make([]byte, unix.IFNAMSIZ)
	copy(text, name)
	return text
}

func device(key expr.MetaKey, op expr.CmpOp, name string) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: first}, &expr.Cmp{Op: op, Register: first, Data: deviceName(name)}}
}

// from fits what comes by a device, and notFrom what does not; to is for what leaves.
func from(name string) []expr.Any    { return device(expr.MetaKeyIIFNAME, expr.CmpOpEq, name) }
func notFrom(name string) []expr.Any { return device(expr.MetaKeyIIFNAME, expr.CmpOpNeq, name) }
func to(name string) []expr.Any      { return device(expr.MetaKeyOIFNAME, expr.CmpOpEq, name) }
func notTo(name string) []expr.Any   { return device(expr.MetaKeyOIFNAME, expr.CmpOpNeq, name) }

func protocol(udp bool) []expr.Any {
	number := byte(unix.IPPROTO_TCP)
	if udp {
		number = unix.IPPROTO_UDP
	}
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: first}, &expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: []byte{number}}}
}

// ports fits those from one to another; zero is every port.
func ports(from, last uint16) []expr.Any {
	if from == 0 {
		return nil
	}
	return []expr.Any{
		&expr.Payload{DestRegister: first, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
		&expr.Cmp{Op: expr.CmpOpGte, Register: first, Data: binaryutil.BigEndian.PutUint16(from)},
		&expr.Cmp{Op: expr.CmpOpLte, Register: first, Data: binaryutil.BigEndian.PutUint16(last)},
	}
}

func address(offset uint32) expr.Any {
	return &expr.Payload{DestRegister: first, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}
}

// within fits an address that a prefix has, and outside one that it has not.
func within(offset uint32, p netip.Prefix) []expr.Any  { return prefix(offset, expr.CmpOpEq, p) }
func outside(offset uint32, p netip.Prefix) []expr.Any { return prefix(offset, expr.CmpOpNeq, p) }

func prefix(offset uint32, op expr.CmpOp, p netip.Prefix) []expr.Any {
	mask := binaryutil.BigEndian.PutUint32(^uint32(0) << (32 - p.Bits()))
	return []expr.Any{address(offset), &expr.Bitwise{SourceRegister: first, DestRegister: first, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: op, Register: first, Data: p.Addr().AsSlice()}}
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// state fits what belongs to connections of some states.
func state(bits uint32) []expr.Any {
	return []expr.Any{&expr.Ct{Key: expr.CtKeySTATE, Register: first},
		&expr.Bitwise{SourceRegister: first, DestRegister: first, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: first, Data: make([]byte, 4)}}
}

// mark has the rest of this packet's way know why it was allowed, and marked fits such.
func mark(value uint32) []expr.Any {
	return []expr.Any{&expr.Immediate{Register: first, Data: binaryutil.NativeEndian.PutUint32(value)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: first}}
}

func marked(value uint32) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyMARK, Register: first},
		&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: binaryutil.NativeEndian.PutUint32(value)}}
}

// local fits what is for an address of this namespace's own.
func local() []expr.Any {
	return []expr.Any{&expr.Fib{Register: first, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)}}
}

// more fits what is over a rate.
func more(kind expr.LimitType, rate uint64, burst uint32) []expr.Any {
	return []expr.Any{&expr.Limit{Type: kind, Rate: rate, Burst: burst, Unit: expr.LimitTimeSecond, Over: true}}
}

// over fits a connection that is one too many.
func over(connections int) []expr.Any {
	return []expr.Any{&expr.Connlimit{Count: uint32(connections), Flags: expr.NFT_CONNLIMIT_F_INV}}
}

// translated gives a connection another source or destination.
func translated(kind expr.NATType, a netip.Addr) []expr.Any {
	return []expr.Any{&expr.Immediate{Register: first, Data: a.AsSlice()}, &expr.NAT{Type: kind, Family: unix.NFPROTO_IPV4, RegAddrMin: first, RegAddrMax: first}}
}

func verdict(kind expr.VerdictKind, chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind, Chain: chain}}
}

var (
	accept = verdict(expr.VerdictAccept, "")
	drop   = verdict(expr.VerdictDrop, "")
	deny   = verdict(expr.VerdictGoto, denyChain)
	reset  = []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}
)
