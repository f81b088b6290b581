package network

import (
	"bufio"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"aether/internal/network/control"
	"aether/sandbox"
)

const (
	resolvFile = "/etc/resolv.conf"
	hostsFile  = "/etc/hosts"
	maxServers = 3
)

// hello is how this host resolves names and whom it believes, for a process that cannot
// read its files.
func (s *Service) hello() *control.Hello {
	log := s.log
	h := &control.Hello{Hosts: map[string][]netip.Addr{}, Roots: s.opts.Roots}
	if h.Roots == nil {
		h.Roots = hostRoots(log)
	}
	for _, fields := range lines(resolvFile, log) {
		if len(fields) < 2 || fields[0] != "nameserver" || len(h.Servers) >= maxServers {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil {
			h.Servers = append(h.Servers, netip.AddrPortFrom(addr, 53))
		}
	}
	for _, fields := range lines(hostsFile, log) {
		addr, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, text := range fields[1:] {
			if name, err := sandbox.ParseHostName(text); err == nil {
				h.Hosts[name] = append(h.Hosts[name], addr)
			}
		}
	}
	return h
}

// lines are the words of a file's lines, without comments.
func lines(path string, log *slog.Logger) (all [][]string) {
	file, err := os.Open(path)
	if err != nil {
		log.Debug("network: names", "err", err)
		return nil
	}
	defer file.Close()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		text, _, _ := strings.Cut(scanner.Text(), "#")
		if fields := strings.Fields(text); len(fields) > 0 {
			all = append(all, fields)
		}
	}
	return all
}
