package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Reach is something that a sandbox may or may not reach, as an entry of a Network's
// lists says: `api.example.com`, `*.example.com:443`, `10.0.0.0/8:5432`,
// `[2001:db8::/32]:443`, `ntp.example.com:123/udp`, or the name of a list, `packages`.
// Exactly one of List, Name and Prefix is set.
type Reach struct {
	// List is the name of a list: one word, without a dot or a port.
	List string `json:"list,omitempty"`
	// Name is a host's, in lower case and without a final dot; with Below it is all
	// names below that, and not itself.
	Name  string `json:"name,omitempty"`
	Below bool   `json:"below,omitempty"`
	// Prefix are addresses.
	Prefix netip.Prefix `json:"prefix,omitzero"`
	// First and Last are the ports; zero is every port.
	First uint16 `json:"first,omitempty"`
	Last  uint16 `json:"last,omitempty"`
	// UDP is the protocol, instead of TCP.
	UDP bool `json:"udp,omitempty"`
}

const (
	maxName  = 253
	maxLabel = 63
)

// reachForm is how an entry is written, for whoever wrote it otherwise.
const reachForm = "write HOST[:PORT[-PORT]][/udp], as in api.example.com, *.example.com:443, 10.0.0.0/8:5432 or [2001:db8::/32]:443, or the name of a list"

// ParseReach reads an entry. Errors are for people, and quote it.
func ParseReach(entry string) (r Reach, err error) {
	rest := entry
	if text, ok := strings.CutSuffix(rest, "/udp"); ok {
		rest, r.UDP = text, true
	} else {
		rest = strings.TrimSuffix(rest, "/tcp")
	}
	if len(rest) > 2*maxName {
		return Reach{}, fmt.Errorf("%.80q is longer than any name", entry)
	}
	if rest == entry && IsListName(rest) {
		return Reach{List: rest}, nil
	}
	if err := r.parse(rest); err != nil {
		return Reach{}, fmt.Errorf("%.80q: %w", entry, err)
	}
	return r, nil
}

// IsListName says whether a word can be the name of a list. What programs take for an
// address cannot.
func IsListName(word string) bool { return IsName(word, maxLabel) && !isNumber(word) }

func isNumber(word string) bool {
	if hex, ok := strings.CutPrefix(word, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(word, "0123456789") == ""
}

// parse reads what is before the protocol.
func (r *Reach) parse(text string) error {
	host, ports, err := splitPorts(text)
	if err != nil {
		return err
	}
	if r.First, r.Last, err = parsePorts(ports); err != nil {
		return err
	}
	if r.Prefix, err = parsePrefix(host); err != nil || r.Prefix.IsValid() {
		return err
	}
	host, r.Below = strings.CutPrefix(host, "*.")
	r.Name, err = ParseHostName(host)
	return err
}

// splitPorts parts what is before the ports from them, which are "" where there are none.
// An address of version 6 with a port has brackets, and may have them without one.
func splitPorts(text string) (host, ports string, err error) {
	colon := false
	if inside, ok := strings.CutPrefix(text, "["); ok {
		host, ports, ok = strings.Cut(inside, "]")
		if !ok || !strings.Contains(host, ":") {
			return "", "", errors.New("brackets are for an address of version 6, and are closed after it")
		}
		if ports == "" {
			return host, "", nil
		}
		if ports, colon = strings.CutPrefix(ports, ":"); !colon {
			return "", "", errors.New("after brackets there is a colon and a port, or nothing")
		}
	} else if strings.Count(text, ":") > 1 {
		return text, "", nil
	} else {
		host, ports, colon = strings.Cut(text, ":")
	}
	if colon && ports == "" {
		return "", "", errors.New("there is no port after the colon")
	}
	return host, ports, nil
}

func parsePorts(text string) (first, last uint16, err error) {
	if text == "" {
		return 0, 0, nil
	}
	from, to, isRange := strings.Cut(text, "-")
	first, ok := parsePort(from)
	last = first
	if ok && isRange {
		last, ok = parsePort(to)
	}
	if !ok || last < first {
		return 0, 0, fmt.Errorf("%.20q is no port, or range of ports, from 1 to 65535", text)
	}
	return first, last, nil
}

// parsePort takes a port in its one form: 080 is no second name for 80.
func parsePort(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n > 0 && strconv.FormatUint(n, 10) == text
}

// parsePrefix takes addresses as what they are: one of version 4 that is written as of
// version 6 is of version 4. What is no address gives no prefix and no error.
func parsePrefix(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, nil
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	if prefix != prefix.Masked() {
		return netip.Prefix{}, fmt.Errorf("it has bits after its prefix: %v is meant, or the address alone", prefix.Masked())
	}
	if addr := prefix.Addr(); addr.Is4In6() {
		if prefix.Bits() < 96 {
			return netip.Prefix{}, errors.New("it has addresses of both versions")
		}
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}
	return prefix, nil
}

// ParseHostName gives the one form of a host's name: lower case, without a final dot.
// Names beyond ASCII have to be given as they are in the DNS. What a program could take
// for an address is no name. Errors are for people alone.
func ParseHostName(text string) (string, error) {
	name := strings.TrimSuffix(text, ".")
	if name == "" || len(name) > maxName {
		return "", fmt.Errorf("%.80q is no name of a host", text)
	}
	if strings.ContainsFunc(name, func(c rune) bool { return c >= 0x80 }) { // some of which have small letters that are ASCII
		return "", fmt.Errorf("%.80q is not ASCII: write it as in the DNS, beginning with xn--", text)
	}
	name = strings.ToLower(name)
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if err := checkLabel(label); err != nil {
			return "", err
		}
	}
	if last := labels[len(labels)-1]; last[0] >= '0' && last[0] <= '9' {
		return "", fmt.Errorf("%.80q ends like an address, and is none", text)
	}
	return name, nil
}

func checkLabel(label string) error {
	if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
		return fmt.Errorf("%.80q is no part of a name", label)
	}
	for _, c := range []byte(label) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return fmt.Errorf("%.80q is no part of a name", label)
		}
	}
	return nil
}

// String is the entry.
func (r Reach) String() string {
	if r.List != "" {
		return r.List
	}
	text := r.Name
	if r.Below {
		text = "*." + text
	}
	if r.Prefix.IsValid() {
		text = r.Prefix.String()
		if r.Prefix.IsSingleIP() {
			text = r.Prefix.Addr().String()
		}
		if r.Prefix.Addr().Is6() && r.First != 0 {
			text = "[" + text + "]"
		}
	}
	if r.First != 0 {
		text += ":" + strconv.Itoa(int(r.First))
	}
	if r.Last != r.First {
		text += "-" + strconv.Itoa(int(r.Last))
	}
	switch {
	case r.UDP:
		text += "/udp"
	case r.First == 0 && IsName(text, maxLabel): // it would read as a list
		text += "."
	}
	return text
}
