package sandbox

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Proxy is what a sandbox's connections go through, as a Network's Proxy says:
// `socks5://proxy.example.com:1080`, `http://[2001:db8::1]:3128`, or with a secret whose
// value is `user:password`, `socks5://${NAME}@192.0.2.1:1080`.
type Proxy struct {
	// Scheme is socks5 or http.
	Scheme string `json:"scheme,omitempty"`
	// Name or Address is the proxy's.
	Name    string     `json:"name,omitempty"`
	Address netip.Addr `json:"address,omitzero"`
	Port    uint16     `json:"port,omitempty"`
	// Secret is the name of the one with its user and password, or "".
	Secret string `json:"secret,omitempty"`
}

// ParseProxy reads what a Network's Proxy says. Errors are for people; they do not quote
// what it says, for people give passwords there.
func ParseProxy(text string) (p Proxy, err error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found || scheme != "socks5" && scheme != "http" {
		return Proxy{}, fmt.Errorf("a proxy is socks5://host:port or http://host:port")
	}
	p.Scheme = scheme
	if who, at, has := strings.Cut(rest, "@"); has {
		name, opened := strings.CutPrefix(who, "${")
		name, closed := strings.CutSuffix(name, "}")
		if p.Secret = strings.TrimPrefix(name, "e2b.secrets."); !opened || !closed || !isSecretName(p.Secret) {
			return Proxy{}, fmt.Errorf("user and password of a proxy are a secret's value, as socks5://${NAME}@host:port")
		}
		rest = at
	}
	host, port, err := net.SplitHostPort(strings.TrimSuffix(rest, "/"))
	if err != nil {
		return Proxy{}, fmt.Errorf("a proxy has a host and a port, as %s://host:port", scheme)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return Proxy{}, fmt.Errorf("the port of the proxy is none")
	}
	p.Port = uint16(number)
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		p.Address = addr.Unmap()
		return p, nil
	}
	p.Name, err = ParseHostName(host)
	return p, err
}

// Host is the proxy's name or address, as a secret's hosts are written.
func (p Proxy) Host() string {
	if p.Name != "" {
		return p.Name
	}
	return p.Address.String()
}
