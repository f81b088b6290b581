// Package netdevtest gives tests a network of their own: a net namespace in which every
// address of some prefixes is this host's, though no interface has it, so that servers
// of the test's stand for hosts of the Internet.
package netdevtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const variable = "AETHER_TEST_WORLD"

// Values of the variable: in a world that is to be prepared, and in one that was, by whoever
// started the program.
const (
	bare  = "bare"
	ready = "ready"
)

// World is a network of tests' own.
type World struct {
	// Prefixes are those whose addresses are this host's.
	Prefixes []string
	// Own are prefixes whose addresses an interface has besides.
	Own []string
	// Resolv and Hosts stand for the host's files about names, if one is not empty. There
	// is a mount namespace then, and everybody may use every port, and ping.
	Resolv, Hosts string
}

// Main runs tests in a world of their own that has these prefixes.
func Main(prefixes ...string) (inside bool, status int) { return World{Prefixes: prefixes}.Main() }

// Main runs tests in a world of their own: it starts the test program again in new
// namespaces and gives its status, or prepares them if it is in there, and says so. Who is an
// ordinary user is root in there, or, with files about names, that user again.
func (w World) Main() (inside bool, status int) {
	switch state, id, _ := strings.Cut(os.Getenv(variable), " "); state {
	case ready:
		return true, 0
	case bare:
		if err := errors.Join(w.prepare(), os.Setenv(variable, ready)); err != nil {
			fmt.Fprintln(os.Stderr, "netdevtest:", err)
			return false, 1
		}
		if id == "0" || !w.named() {
			return true, 0
		}
		return false, again(ready, unix.CLONE_NEWUSER, number(id), 0)
	}
	flags := uintptr(unix.CLONE_NEWNET)
	if w.named() {
		flags |= unix.CLONE_NEWNS
	}
	if os.Geteuid() != 0 {
		flags |= unix.CLONE_NEWUSER
	}
	return false, again(fmt.Sprint(bare, " ", os.Geteuid()), flags, 0, os.Geteuid())
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic("netdevtest: " + err.Error()) // which this program wrote itself
	}
	return n
}

func (w World) named() bool { return w.Resolv != "" || w.Hosts != "" }

// again starts the test program in new namespaces, in which, if one is for users, somebody
// of here is somebody else.
func again(state string, flags uintptr, there, here int) (status int) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), variable+"="+state)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if flags&unix.CLONE_NEWUSER != 0 {
		group := os.Getegid()
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: there, HostID: here, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: there, HostID: group, Size: 1}}
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(1, exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "netdevtest: no namespaces for a network of the tests' own:", err)
		return 1
	}
	return 0
}

func (w World) prepare() error {
	if err := prepare(w.Prefixes); err != nil {
		return err
	}
	for _, prefix := range w.Own {
		if err := Find(prefix); err != nil {
			return fmt.Errorf("%s: %w", prefix, err)
		}
	}
	if !w.named() {
		return nil
	}
	return errors.Join(
		os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0),
		os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte(pingers()), 0),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		replace("/etc/resolv.conf", w.Resolv), replace("/etc/hosts", w.Hosts))
}

// pingers are the groups that may send echo requests: all that there are.
func pingers() string {
	if os.Getuid() == 0 && os.Getgid() == 0 {
		if text, err := os.ReadFile("/proc/self/gid_map"); err == nil && len(bytes.Fields(text)) == 3 && string(bytes.Fields(text)[2]) == "1" {
			return "0 0"
		}
	}
	return "0 2147483647"
}

// replace shows another file in a file's place, in this mount namespace, which everybody
// may write.
func replace(path, text string) error {
	file, err := os.CreateTemp("", "aether-world-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // its contents stay where it is mounted
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Chmod(0o666), file.Close()); err != nil {
		return err
	}
	return os.NewSyscallError("mount", unix.Mount(file.Name(), path, "", unix.MS_BIND, ""))
}

// prepare brings the loopback up and has every address of the prefixes be found there.
func prepare(prefixes []string) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	const loopback = 1
	up := binary.NativeEndian.AppendUint32(nil, 0) // ifinfomsg: family and type
	up = binary.NativeEndian.AppendUint32(up, loopback)
	up = binary.NativeEndian.AppendUint32(up, unix.IFF_UP)
	up = binary.NativeEndian.AppendUint32(up, unix.IFF_UP)
	if err := ask(fd, unix.RTM_NEWLINK, 0, up); err != nil {
		return fmt.Errorf("the loopback: %w", err)
	}
	for _, text := range prefixes {
		if err := ask(fd, unix.RTM_NEWROUTE, unix.NLM_F_CREATE, route(netip.MustParsePrefix(text), loopback)); err != nil && !errors.Is(err, unix.EEXIST) { // workers that fuzz are in there too
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// route is an rtmsg of a prefix that is local to a device.
func route(p netip.Prefix, device uint32) []byte {
	family := byte(unix.AF_INET)
	if p.Addr().Is6() {
		family = unix.AF_INET6
	}
	text := []byte{family, byte(p.Bits()), 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
	text = append(text, attribute(unix.RTA_DST, p.Addr().AsSlice())...)
	return append(text, attribute(unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, device))...)
}

func attribute(kind uint16, value []byte) []byte {
	text := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	return append(binary.NativeEndian.AppendUint16(text, kind), value...)
}

// ask sends a request and waits for what the kernel says.
func ask(fd int, kind, flags uint16, body []byte) error {
	head := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	head = binary.NativeEndian.AppendUint16(head, kind)
	head = binary.NativeEndian.AppendUint16(head, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	head = append(head, make([]byte, 8)...)
	if err := unix.Sendto(fd, append(head, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return errors.Join(errors.New("no answer"), err)
	}
	if errno := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
		return syscall.Errno(-errno)
	}
	return nil
}
