package policy

import (
	"fmt"
	"slices"
	"strings"

	"aether/sandbox"
)

// HTTPRule is one rule about requests.
type HTTPRule struct {
	// Host is the name and the port, which is 0 for those of HTTP.
	Host    sandbox.Reach `json:"host"`
	Methods []string      `json:"methods,omitempty"`
	Paths   []string      `json:"paths,omitempty"`
	// Headers have the names of secrets in their values.
	Headers map[string]string `json:"headers,omitempty"`
	// Authorization names, in Policy.Secrets, the whole header of that name.
	Authorization string `json:"authorization,omitempty"`
}

// Ports of HTTP, which a rule without one is about.
const (
	plainPort     = 80
	encryptedPort = 443
)

// about says whether a rule is about a host.
func (r HTTPRule) about(name string, port uint16) bool {
	if r.Host.First == 0 && port != plainPort && port != encryptedPort || r.Host.First != 0 && port != r.Host.First {
		return false
	}
	return Rule{Reach: r.Host}.HasName(name)
}

func (r HTTPRule) allows(method, path string, plain bool) bool {
	if len(r.Methods) > 0 && !slices.Contains(r.Methods, method) {
		return false
	}
	return len(r.Paths) == 0 || plain && slices.ContainsFunc(r.Paths, func(p string) bool { return matches(p, path) })
}

// matches says whether a path is the pattern's, or begins so.
func matches(pattern, path string) bool {
	if beginning, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, beginning)
	}
	return path == pattern
}

// Ruled says whether rules are about a host: nothing but requests that one of them allows
// is passed on to it then.
func (p Policy) Ruled(name string, port uint16) bool {
	return name != "" && slices.ContainsFunc(p.HTTP, func(r HTTPRule) bool { return r.about(name, port) })
}

// RulesOf are those about a host.
func (p Policy) RulesOf(name string, port uint16) (list []HTTPRule) {
	for _, r := range p.HTTP {
		if r.about(name, port) {
			list = append(list, r)
		}
	}
	return list
}

// RequestVerdict is what is decided about a request. Headers are to be set in it.
type RequestVerdict struct {
	Allowed bool
	Rule    string
	Reason  string
	Headers map[string]string
	// Secret says that secrets are in the headers.
	Secret bool
}

// Request decides about a request to a host that rules are about. The path is the one that
// is sent on, with its escapes.
func (p Policy) Request(name string, port uint16, method, path string) (v RequestVerdict) {
	v.Reason = "no rule about requests to this host allows it"
	plain := sandbox.IsPlainPath(path)
	if !plain {
		v.Reason = "its path can be read in more than one way"
	}
	for _, r := range p.RulesOf(name, port) {
		if !r.allows(method, path, plain) {
			continue
		}
		v.Allowed, v.Rule, v.Reason = true, r.Host.String(), ""
		for header, value := range r.Headers {
			if v.Headers == nil {
				v.Headers = map[string]string{}
			}
			expanded, secret := p.expand(value)
			v.Headers[header], v.Secret = expanded, v.Secret || secret
		}
		if r.Authorization != "" {
			v.Headers, v.Secret = map[string]string{"Authorization": p.Secrets[r.Authorization].Reveal()}, true
		}
	}
	return v
}

// expand replaces the names of secrets. Compile has seen that there are values for them.
func (p Policy) expand(value string) (text string, secret bool) {
	text, err := sandbox.ExpandHeader(value, func(name string) string {
		secret = true
		return p.Secrets[name].Reveal()
	})
	if err != nil {
		return "", secret
	}
	return text, secret
}

// compileHTTP makes the rules, and adds the secrets that they name.
func (p *Policy) compileHTTP(rules []sandbox.HTTPRule, secrets sandbox.Secrets) error {
	for i, r := range rules {
		field := fmt.Sprintf("network.http[%d]", i)
		host, err := r.Reach()
		if err != nil {
			return &sandbox.Error{Class: sandbox.Invalid, Field: field, Err: err}
		}
		for header, value := range r.Headers {
			names, err := sandbox.HeaderSecrets(value)
			if err != nil {
				return &sandbox.Error{Class: sandbox.Invalid, Field: field, Reason: fmt.Sprintf("the header %q %s", header, err)}
			}
			for _, name := range names {
				if err := p.addSecret(field, name, reachHost(host), secrets); err != nil {
					return err
				}
			}
		}
		p.HTTP = append(p.HTTP, HTTPRule{Host: host, Methods: r.Methods, Paths: r.Paths, Headers: r.Headers})
	}
	return nil
}

// authorize adds rules for hosts of lists that want a credential, unless the policy has
// rules about these already: what only reads is given it, and everything else passes as it
// is. Whoever installs packages does not get to publish them.
func (p *Policy) authorize() {
	own := slices.Clone(p.HTTP)
	for _, r := range p.Allow {
		header := r.Authorization.Reveal()
		if header == "" || !sandbox.IsHeaderText(header) || (Policy{HTTP: own}).Ruled(r.Name, r.First) {
			continue
		}
		name := "of the list: " + r.String() // which no secret of a user's can be called
		if p.Secrets == nil {
			p.Secrets = map[string]Secret{}
		}
		p.Secrets[name] = r.Authorization
		p.HTTP = append(p.HTTP, HTTPRule{Host: r.Reach}, HTTPRule{Host: r.Reach, Methods: []string{"GET", "HEAD"}, Authorization: name})
	}
}

// reachHost is a host without its port.
func reachHost(r sandbox.Reach) string {
	if r.Below {
		return "*." + r.Name
	}
	return r.Name
}
