package netdev

import (
	"encoding/binary"
	"net/netip"
)

// HardwareAddr is one of Ethernet.
type HardwareAddr = [6]byte

// Tap is a device to be made, as the sandbox sees it.
type Tap struct {
	Name string `json:"name"`
	// Address is the sandbox's own, of version 4; it has no neighbours but Gateway, to
	// which everything is sent.
	Address netip.Addr `json:"address"`
	Gateway netip.Addr `json:"gateway"`
	// Hardware is the device's, and GatewayHardware its only neighbour's: nobody asks
	// for them.
	Hardware        HardwareAddr `json:"hardware"`
	GatewayHardware HardwareAddr `json:"gateway_hardware"`
	MTU             int          `json:"mtu"`
}

// Checksum is where in a frame the kernel would have to put one, if the frame left this
// host: within it, nobody looks. Zero is no checksum.
type Checksum struct{ Start, Offset int }

// needsChecksum is VIRTIO_NET_HDR_F_NEEDS_CSUM.
const needsChecksum = 1

// headerOf says where a packet's checksum would be.
func headerOf(sum Checksum) (header [HeaderSize]byte) {
	if sum.Start != 0 {
		header[0] = needsChecksum
		binary.NativeEndian.PutUint16(header[6:], uint16(sum.Start))
		binary.NativeEndian.PutUint16(header[8:], uint16(sum.Offset))
	}
	return header
}
