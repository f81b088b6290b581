package list

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"aether/sandbox"
)

// site is what a setting of a tool names.
type site struct {
	url        *url.URL // without a credential
	from       string   // "tool: setting"
	credential *Credential
	proxy      bool // and so its credential is for connections, not for requests
	proxies    proxies
	// point asks what the site points to, or is nil where there is nothing to ask.
	point func(context.Context, *visit) error
}

// newSite reads the URL of a setting. Schemes that reach no network give no site and no
// error.
func newSite(text, from string) (s site, ok bool, err error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		// The error has the URL, and that may have a password.
		return site{}, false, fmt.Errorf("%s: it is no URL", from)
	}
	if schemePort(u.Scheme) == 0 {
		return site{}, false, nil
	}
	credential := takeCredential(u)
	if _, err := targetOf(u); err != nil {
		return site{}, false, fmt.Errorf("%s: %w", from, err)
	}
	return site{url: u, from: from, credential: credential}, true, nil
}

// sent says whether requests to the site can be given its credential on their way out.
func (s site) sent() bool {
	return s.credential != nil && !s.proxy && s.url.Scheme == "https" && !isAddress(s.url.Hostname())
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// schemePort is where URLs without a port lead.
func schemePort(scheme string) uint16 {
	return map[string]uint16{"http": 80, "https": 443, "ftp": 21, "ssh": 22, "git": 9418, "socks4": 1080, "socks4a": 1080, "socks5": 1080, "socks5h": 1080}[scheme]
}

// targetOf is the host of a URL at the one port that it leads to.
func targetOf(u *url.URL) (r sandbox.Reach, err error) {
	port := schemePort(u.Scheme)
	if port == 0 {
		return r, fmt.Errorf("%.20q is no scheme of a network", u.Scheme)
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return r, fmt.Errorf("it has no port from 1 to 65535")
		}
		port = uint16(n)
	}
	r = sandbox.Reach{First: port, Last: port}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		r.Prefix = netip.PrefixFrom(addr, addr.BitLen())
		return r, nil
	}
	r.Name, err = sandbox.ParseHostName(u.Hostname())
	return r, err
}
