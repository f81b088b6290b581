package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"aether/network/list"
	"aether/sandbox"
)

// networkFlags are the flags that say what a sandbox reaches, as typed.
type networkFlags struct {
	net, proxy, netRate string
	allow, deny         []string
	requests, headers   []string
	connections         int
	asks                bool // --net ask is one of the modes
	fixed               bool // the mode is not asked for
}

var networkFlagNames = []string{"allow", "deny", "allow-request", "set-header", "proxy", "max-connections", "net-rate"}

func (f *networkFlags) registerNetwork(cmd *cobra.Command) {
	flags := cmd.Flags()
	if !f.fixed {
		flags.StringVar(&f.net, "net", "", f.netUsage())
		completeFlag(cmd, "net", f.networkModes())
	}
	flags.StringArrayVar(&f.allow, "allow", nil, "let it reach HOST[:PORT][/udp]: a name, *.name, an address, a prefix or a list; repeatable, implies --net egress")
	flags.StringArrayVar(&f.deny, "deny", nil, "never let it reach this, whatever --allow says; repeatable")
	flags.StringArrayVar(&f.requests, "allow-request", nil, "of requests to a host, let only such pass: '[METHOD] HOST[:PORT]/PATH', or /PATH* for all that begin so; repeatable")
	flags.StringArrayVar(&f.headers, "set-header", nil, "set a header in requests to a host: 'HOST[:PORT] NAME: VALUE', with ${SECRET} in the value; repeatable")
	flags.StringVar(&f.proxy, "proxy", "", "have all its connections go through socks5://HOST:PORT or http://HOST:PORT, with ${SECRET}@ for user:password")
	flags.IntVar(&f.connections, "max-connections", 0, "how many connections it may have at once (default 512)")
	flags.StringVar(&f.netRate, "net-rate", "", "limit on bytes to and from its network in a second, such as 10M")
	completeFlag(cmd, "allow", []string{list.NamePackages, list.NamePublic})
}

// networkModes are the values of --net.
func (f *networkFlags) networkModes() []string {
	modes := []string{"none", string(sandbox.EgressNetwork), string(sandbox.NatNetwork), string(sandbox.HostNetwork)}
	if f.asks {
		modes = append(modes, askMode)
	}
	return modes
}

func (f *networkFlags) netUsage() string {
	ask := ""
	if f.asks {
		ask = "ask (egress, and what was denied is told afterwards), "
	}
	return "network: none (the default), egress (what --allow names), " + ask + "nat (the same by address, faster and weaker; root), or host (not isolated at all)"
}

// network is the policy that the flags say.
func (f *networkFlags) network() (n sandbox.Network, err error) {
	n = sandbox.Network{Mode: sandbox.NetworkMode(f.net), Allow: f.allow, Deny: f.deny, Proxy: f.proxy, Connections: f.connections}
	if f.netRate != "" {
		if n.Rate, err = parseBytes("--net-rate", f.netRate); err != nil {
			return n, err
		}
	}
	if n.HTTP, err = f.rules(); err != nil {
		return n, err
	}
	n.Allow = append(slices.Clone(n.Allow), ruledHosts(n.HTTP)...)
	switch {
	case f.fixed, f.net == "" && len(n.Allow) > 0, f.asks && f.net == askMode:
		n.Mode = sandbox.EgressNetwork
	case f.net == "" || f.net == "none":
		n.Mode = sandbox.NoNetwork
	case !slices.Contains(f.networkModes(), f.net):
		return n, unknownName("--net", f.net, f.networkModes())
	}
	return n, nil
}

// other is the policy that the flags say, or nil if none of them was given.
func (f *networkFlags) other(cmd *cobra.Command) (*sandbox.Network, error) {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	if !slices.ContainsFunc(networkFlagNames, given) {
		return nil, nil
	}
	n, err := f.network()
	return &n, err
}

// rules are what --allow-request and --set-header say, a rule for each request, with the
// headers of its host. A host of which only headers are set has a rule that allows all.
func (f *networkFlags) rules() (rules []sandbox.HTTPRule, err error) {
	for _, text := range f.requests {
		rule, err := parseRequest(text)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	for _, text := range f.headers {
		host, name, value, err := parseHeader(text)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(rules, func(r sandbox.HTTPRule) bool { return r.Host == host }) {
			rules = append(rules, sandbox.HTTPRule{Host: host})
		}
		for i := range rules {
			if rules[i].Host == host {
				rules[i].Headers = withHeader(rules[i].Headers, name, value)
			}
		}
	}
	return rules, nil
}

func withHeader(headers map[string]string, name, value string) map[string]string {
	if headers == nil {
		headers = map[string]string{}
	}
	headers[name] = value
	return headers
}

// ruledHosts are the entries that allow the hosts of rules, encrypted where no port is said.
func ruledHosts(rules []sandbox.HTTPRule) (entries []string) {
	for _, r := range rules {
		entry := r.Host
		if !strings.Contains(entry, ":") {
			entry += ":443"
		}
		if !slices.Contains(entries, entry) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// parseRequest reads '[METHOD] HOST[:PORT]/PATH'.
func parseRequest(text string) (r sandbox.HTTPRule, err error) {
	words := strings.Fields(text)
	if len(words) == 2 {
		r.Methods, words = words[:1], words[1:]
	}
	if len(words) == 1 {
		host, path, found := strings.Cut(words[0], "/")
		if r.Host = host; found {
			r.Paths = []string{"/" + path}
		}
	}
	if err := (sandbox.Spec{Network: sandbox.Network{Mode: sandbox.EgressNetwork, HTTP: []sandbox.HTTPRule{r}}}).Validate(); err != nil || len(words) != 1 {
		return r, &sandbox.Error{Class: sandbox.Invalid, Field: "--allow-request", Reason: "it is not '[METHOD] HOST[:PORT]/PATH'", Err: err}
	}
	return r, nil
}

// parseHeader reads 'HOST[:PORT] NAME: VALUE'. What is refused is not repeated: people give
// a value where a secret's name is wanted.
func parseHeader(text string) (host, name, value string, err error) {
	host, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	name, value, found := strings.Cut(rest, ":")
	if host == "" || !found || strings.TrimSpace(name) == "" {
		return "", "", "", sandbox.Invalidf("--set-header", "it is not 'HOST[:PORT] NAME: VALUE'")
	}
	return host, strings.TrimSpace(name), strings.TrimSpace(value), nil
}

// forkNetwork refuses what a fork, or what is made of a snapshot, cannot be given.
func forkNetwork(n sandbox.Network) error {
	if n.Mode == sandbox.NoNetwork || n.Mode.Filtered() {
		return nil
	}
	return sandbox.Invalidf("--net", "a fork has the network that its template has, or one of the mode egress; so has what is made of a snapshot")
}

// ownSecrets are the variables of this program's environment, for a sandbox that no daemon
// holds.
func ownSecrets(name string) (string, []string, error) {
	value, set := os.LookupEnv(name)
	if !set {
		return "", nil, &sandbox.Error{Class: sandbox.NotFound, Reason: "there is no variable of this name in the environment"}
	}
	return value, nil, nil
}
