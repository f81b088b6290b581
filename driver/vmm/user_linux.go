package vmm

import (
	"crypto/rand"
	"encoding/binary"
	"os"
	"strings"
	"syscall"
)

const (
	// firstUser begins a range of user ids far above those that hosts give to
	// people, services and containers.
	firstUser = 0x70000000
	userRange = 1 << 24
	// sharing is the group of all monitors, by which they read what machines
	// share. No monitor is a user or has a group of this number otherwise.
	sharing = firstUser + userRange
)

// newUser is a user that nobody else is.
func newUser() *syscall.Credential {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	id := firstUser + binary.LittleEndian.Uint32(b[:])%userRange
	return &syscall.Credential{Uid: id, Gid: id}
}

// lowlyUser is the user that a monitor runs as: where we may choose, one that
// nobody else is, so that a guest that takes its monitor over meets no other. It is
// nil where we are an ordinary user already, where this user namespace has no such
// ids, or where only root may open /dev/kvm, which an emulated machine does without.
func lowlyUser(emulated bool) *syscall.Credential {
	if os.Geteuid() != 0 || !hasUsers() {
		return nil
	}
	user := newUser()
	if emulated {
		return user
	}
	info, err := os.Stat("/dev/kvm")
	if err != nil {
		return nil
	}
	device := info.Sys().(*syscall.Stat_t)
	switch {
	case device.Mode&0o006 == 0o006:
		return user
	case device.Mode&0o060 == 0o060 && device.Gid != 0:
		user.Groups = append(user.Groups, device.Gid)
		return user
	}
	return nil
}

// hasUsers says that this user namespace maps all ids to themselves.
func hasUsers() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(text))
	return err == nil && len(fields) == 3 && fields[0] == "0" && fields[2] == "4294967295"
}
