package nat

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
)

// setting is one of the kernel's for a net namespace: that of the thread which writes it.
type setting struct {
	name, value string
	// optional is one that not every kernel has.
	optional bool
}

func (s setting) write() error {
	err := os.WriteFile("/proc/sys/net/"+s.name, []byte(s.value), 0)
	if s.optional && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("set %s: %w", s.name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
