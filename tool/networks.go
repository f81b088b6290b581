package tool

import (
	"context"
	"net"
	"slices"
	"strconv"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// Network is what a sandbox may reach, and what it tried in vain.
type Network struct {
	Mode  string   `json:"mode"`
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	// Refused are what it was refused, the latest last.
	Refused []Refused `json:"refused,omitempty"`
}

// Refused is a name or connection that a sandbox was refused.
type Refused struct {
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"`
	To     string    `json:"to"`
	Reason string    `json:"reason,omitempty"`
	Count  int64     `json:"count,omitempty"`
}

const maxRefused = 50

type networkArgs struct {
	of
	Allow []string `json:"allow,omitempty" jsonschema:"as api.example.com:443, *.example.com, 10.0.0.0/8:5432 or packages"`
	Deny  []string `json:"deny,omitempty"`
}

type portArgs struct {
	of
	Port int `json:"port"`
}

func networkTools() []*Tool {
	return []*Tool{
		define("network_get", Reads, "What a sandbox may reach, and what it was refused.", (*Session).network),
		define("network_set", Writes, "Replace what a sandbox that was made with allow may reach; at once, for open connections too.", (*Session).setNetwork).again(),
		define("port_expose", Writes, "Open a port of this machine's loopback that leads to a port in a sandbox.", (*Session).expose).again(),
	}
}

func networkOf(n sandbox.Network) Network {
	v := Network{Mode: string(n.Mode), Allow: n.Allow, Deny: n.Deny}
	if n.Mode == sandbox.NoNetwork {
		v.Mode = "none"
	}
	return v
}

func (s *Session) network(ctx context.Context, in of) (Network, error) {
	found, err := s.enter(ctx, in.Sandbox, 0)
	if err != nil {
		return Network{}, err
	}
	v := networkOf(found.Spec.Network)
	if !found.Spec.Network.Mode.Filtered() {
		return v, nil
	}
	list, _, err := s.opts.Backend.NetworkDecisions(ctx, in.Sandbox)
	if class := sandbox.ClassOf(err); err != nil && class != sandbox.Unsupported && class != sandbox.Conflict {
		return Network{}, err // a paused one has none
	}
	for _, d := range list {
		if d.Verdict != sandbox.VerdictAllowed {
			v.Refused = append(v.Refused, refusedOf(d))
		}
	}
	v.Refused = v.Refused[max(0, len(v.Refused)-maxRefused):]
	return v, nil
}

func refusedOf(d sandbox.NetworkDecision) Refused {
	to := d.Name
	if to == "" && d.Address.IsValid() {
		to = d.Address.String()
	}
	if d.Port != 0 {
		to = net.JoinHostPort(to, strconv.Itoa(int(d.Port)))
	}
	return Refused{d.Time, d.Kind, clip(to, 300), clip(d.Reason, 300), d.Count}
}

func (s *Session) setNetwork(ctx context.Context, in networkArgs) (Network, error) {
	found, err := s.enter(ctx, in.Sandbox, 0)
	if err != nil {
		return Network{}, err
	}
	if !found.Spec.Network.Mode.Filtered() {
		return Network{}, &sandbox.Error{Class: sandbox.Unsupported, Field: "sandbox", Reason: "the sandbox was made without a network of its own", Remedy: "make one with allow"}
	}
	n := found.Spec.Network
	n.Allow, n.Deny = slices.Clone(in.Allow), slices.Clone(in.Deny)
	now, err := s.opts.Backend.SetNetwork(ctx, in.Sandbox, n)
	return networkOf(now.Spec.Network), err
}

// Exposed is a port of this host that leads into a sandbox.
type Exposed struct {
	Sandbox string `json:"sandbox"`
	Port    int    `json:"port"`
	Address string `json:"address"`
	URL     string `json:"url"`
}

func (s *Session) expose(ctx context.Context, in portArgs) (Exposed, error) {
	if in.Port < 1 || in.Port > 65535 {
		return Exposed{}, sandbox.Invalidf("port", "%d is no port", in.Port)
	}
	if !s.opts.Expose {
		return Exposed{}, &sandbox.Error{Class: sandbox.Unsupported, Reason: "ports are opened where the agent is, and this is a server", Remedy: "have its user run: aether port-forward " + clip(in.Sandbox, maxID) + " 0:" + strconv.Itoa(in.Port)}
	}
	err := s.inside(ctx, in.Sandbox, 0, func(client *guest.Client) error { // something must listen there
		conn, err := client.DialPort(ctx, in.Port)
		if err != nil {
			return advise(err, []sandbox.Class{sandbox.Unavailable}, "command_list", map[string]any{"sandbox": in.Sandbox})
		}
		return conn.Close()
	})
	if err != nil {
		return Exposed{}, err
	}
	address, err := s.ports.open(in.Sandbox, in.Port, func(ctx context.Context) (guest.PortConn, func(), error) {
		client, release, err := s.opts.Backend.Guest(ctx, in.Sandbox)
		if err != nil {
			return nil, nil, err
		}
		conn, err := client.DialPort(ctx, in.Port)
		if err != nil {
			release()
			return nil, nil, err
		}
		return conn, release, nil
	})
	return Exposed{in.Sandbox, in.Port, address, "http://" + address}, err
}
