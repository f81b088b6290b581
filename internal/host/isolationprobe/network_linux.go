package isolationprobe

import (
	"net"
	"strings"
	"time"
)

// connectTime is how long a connection to the host may take, which is reached also while it is
// busy. Packets that nobody answers
// are as good as refused.
const connectTime = 2 * time.Second

// metadata is where clouds tell machines their secrets.
const metadata = "169.254.169.254:80"

var networkProbes = []probe{
	{"net-abstract", func(l *looker) Sighting { return connect("unix", "@"+l.Abstract) }},
	{"net-unix", func(l *looker) Sighting { return connect("unix", l.Unix) }},
	{"net-loopback", func(l *looker) Sighting { return connect("tcp", l.Loopback4) }},
	{"net-loopback6", func(l *looker) Sighting { return connect("tcp", l.Loopback6) }},
	{"net-address", func(l *looker) Sighting { return connect("tcp", l.Address) }},
	{"net-metadata", func(*looker) Sighting { return connect("tcp", metadata) }},
	{"net-devices", netDevices},
	{"net-routes", netRoutes},
}

func connect(network, address string) Sighting {
	if address == "" {
		return unknown("the host does not listen there")
	}
	conn, err := net.DialTimeout(network, address, connectTime)
	if err == nil {
		conn.Close()
	}
	return whether(err == nil, "connect: "+result(err))
}

func netDevices(*looker) Sighting {
	text, err := read("/proc/net/dev")
	if err != nil {
		return unknown("%v", err)
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) != "lo" {
			found = append(found, strings.TrimSpace(name))
		}
	}
	if len(found) > 0 {
		return open("%s", strings.Join(found, ", "))
	}
	return closed("the loopback and no other")
}

func netRoutes(*looker) Sighting {
	text, err := read("/proc/net/route")
	if err != nil {
		return unknown("%v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) > 1 {
		return open("%d routes", len(lines)-1)
	}
	return closed("no route")
}
