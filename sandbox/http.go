package sandbox

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
)

// HTTPRule is about requests to a host: what they may be, and what is added to them on
// their way out, where the sandbox does not see it. A rule does not allow its host: Allow
// does. A request to a host that rules are about passes if one of them allows it, and is
// given the headers of all that do, those of later rules in place of earlier ones.
//
// TLS to such a host ends in the sandbox's gateway, whose certificates the sandbox trusts;
// nothing but HTTP is spoken there.
type HTTPRule struct {
	// Host is `api.example.com` or `*.example.com`, with or without a port; without one the
	// rule is about the ports 443 and 80.
	Host string `json:"host"`
	// Methods are those that it allows, as GET; none is all.
	Methods []string `json:"methods,omitempty"`
	// Paths are those that it allows: exactly `/v1/models`, or `/v1/*` for all that begin so;
	// none is all. A path is compared as it is sent on. One that servers read in more
	// than one way, with `..`, `//` or such hidden in escapes, is allowed by none.
	Paths []string `json:"paths,omitempty"`
	// Headers are set in the request, in place of those that it has. `${NAME}` in a value,
	// or `${e2b.secrets.NAME}`, is a secret's value: such a request has to be encrypted.
	Headers map[string]string `json:"headers,omitempty"`
}

const (
	maxRules       = 64
	maxMethods     = 16
	maxPaths       = 64
	maxPath        = 1 << 10
	maxHeaders     = 16
	maxHeaderName  = 64
	maxHeaderValue = 4 << 10
	maxSecretName  = 64
)

func validateRules(rules []HTTPRule) error {
	if len(rules) > maxRules {
		return Invalidf("network.http", "%d rules are more than %d", len(rules), maxRules)
	}
	for i, r := range rules {
		if err := r.validate(); err != nil {
			return Invalidf(fmt.Sprintf("network.http[%d]", i), "%s", err.Error())
		}
	}
	return nil
}

func (r HTTPRule) validate() error {
	if _, err := r.Reach(); err != nil {
		return err
	}
	switch {
	case len(r.Methods) > maxMethods:
		return fmt.Errorf("%d methods are more than %d", len(r.Methods), maxMethods)
	case len(r.Paths) > maxPaths:
		return fmt.Errorf("%d paths are more than %d", len(r.Paths), maxPaths)
	case len(r.Headers) > maxHeaders:
		return fmt.Errorf("%d headers are more than %d", len(r.Headers), maxHeaders)
	}
	for _, m := range r.Methods {
		if err := checkMethod(m); err != nil {
			return err
		}
	}
	for _, p := range r.Paths {
		if err := checkPattern(p); err != nil {
			return err
		}
	}
	return r.validateHeaders()
}

// Reach is the name of the host and its port, which is 0 if the rule states none. Errors
// are for people alone.
func (r HTTPRule) Reach() (Reach, error) {
	to, err := ParseReach(r.Host)
	switch {
	case err != nil:
		return Reach{}, err
	case to.Name == "" || to.UDP || to.First != to.Last || strings.HasSuffix(r.Host, "/tcp"):
		return Reach{}, fmt.Errorf("%.80q is not a host's name, or *. and a name, with one port or none", r.Host)
	}
	return to, nil
}

func checkMethod(m string) error {
	upper := func(c rune) bool { return c >= 'A' && c <= 'Z' || c == '-' }
	if m == "" || len(m) > 32 || strings.ContainsFunc(m, func(c rune) bool { return !upper(c) }) || m == "CONNECT" {
		return fmt.Errorf("%.40q is no method, as GET", m)
	}
	return nil
}

// checkPattern refuses patterns that no path matches which is sent on.
func checkPattern(p string) error {
	text := strings.TrimSuffix(p, "*")
	if !strings.HasPrefix(text, "/") || len(text) > maxPath || strings.ContainsAny(text, "*?#") {
		return fmt.Errorf("%.80q is no path, as /v1/models, and no beginning of one, as /v1/*", p)
	}
	if !IsPlainPath(text) {
		return fmt.Errorf("%.80q can be read in more than one way", p)
	}
	return nil
}

func (r HTTPRule) validateHeaders() error {
	seen := map[string]string{}
	for name, value := range r.Headers {
		if err := checkHeaderName(name); err != nil {
			return err
		}
		if other, twice := seen[textproto.CanonicalMIMEHeaderKey(name)]; twice {
			return fmt.Errorf("%q and %q are the same header", min(name, other), max(name, other))
		}
		seen[textproto.CanonicalMIMEHeaderKey(name)] = name
		if _, err := HeaderSecrets(value); err != nil {
			return fmt.Errorf("the header %q %w", name, err)
		}
	}
	return nil
}

// connectionHeaders are about a connection and not about a request, or say where it ends.
var connectionHeaders = []string{"Host", "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Expect"}

func checkHeaderName(name string) error {
	if name == "" || len(name) > maxHeaderName || strings.ContainsFunc(name, func(c rune) bool { return !isToken(c) }) {
		return fmt.Errorf("%.80q is no name of a header", name)
	}
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	if slices.Contains(connectionHeaders, canonical) || strings.HasPrefix(canonical, "Proxy-") || strings.HasPrefix(canonical, "Sec-Websocket-") {
		return fmt.Errorf("the header %q is about the connection, which is not the rule's", name)
	}
	return nil
}

// isToken: with no underscore, which some servers take for a dash.
func isToken(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.'
}

// HeaderSecrets are the names of the secrets in the value of a header. Errors are for
// people, and continue a sentence about the header: they do not quote the value.
func HeaderSecrets(value string) (names []string, err error) {
	if len(value) > maxHeaderValue {
		return nil, fmt.Errorf("has a value of %d bytes, more than %d", len(value), maxHeaderValue)
	}
	if !IsHeaderText(value) {
		return nil, fmt.Errorf("has a value with a line break or another control character, which no header can have")
	}
	_, err = ExpandHeader(value, func(name string) string { names = append(names, name); return "" })
	return names, err
}

// secrets are the names of those in the headers of the rule.
func (r HTTPRule) secrets() (names []string) {
	for _, value := range r.Headers {
		if found, err := HeaderSecrets(value); err == nil {
			names = append(names, found...)
		}
	}
	return names
}

// ExpandHeader replaces the names of secrets in the value of a header. Errors are those
// of HeaderSecrets.
func ExpandHeader(value string, secret func(name string) string) (string, error) {
	var text strings.Builder
	for {
		before, rest, found := strings.Cut(value, "${")
		text.WriteString(before)
		if !found {
			return text.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		name = strings.TrimPrefix(name, "e2b.secrets.")
		if !closed || !isSecretName(name) {
			return "", fmt.Errorf("has a ${ that no secret's name and } follow")
		}
		text.WriteString(secret(name))
		value = after
	}
}

// isSecretName says whether a text can name a secret.
func isSecretName(text string) bool {
	for i, c := range []byte(text) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return text != "" && len(text) <= maxSecretName
}

// IsHeaderText says whether a text can be the value of a header.
func IsHeaderText(text string) bool {
	for _, c := range []byte(text) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
