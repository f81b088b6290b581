package policy

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"aether/sandbox"
)

const (
	redacted       = "[secret]"
	maxSecretBytes = 64 << 10
)

// Secret is the value of a secret. It prints, logs and encodes as [secret].
type Secret struct {
	// text is a function because package fmt looks into unexported fields without asking
	// them. Of a function it prints the address.
	text func() string
}

// NewSecret keeps a value.
func NewSecret(text string) Secret { return Secret{func() string { return text }} }

// Reveal gives the value itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return s.text()
}

// Format prints [secret], whatever the verb.
func (s Secret) Format(to fmt.State, _ rune) {
	_, _ = io.WriteString(to, redacted) // the printer has nobody to tell of an error
}

// String is [secret], for those who ask without package fmt.
func (s Secret) String() string { return redacted }

// LogValue logs [secret].
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText encodes [secret].
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// addSecret asks for the value of a secret that is to be sent to a host, which may be all
// names below one. Errors: Invalid for one that nobody knows, Denied for another's host.
func (p *Policy) addSecret(field, name, host string, secrets sandbox.Secrets) error {
	if secrets == nil {
		return noSecret(field, name, nil)
	}
	value, hosts, err := secrets(name)
	switch {
	case err != nil && sandbox.ClassOf(err) == sandbox.NotFound:
		return noSecret(field, name, err)
	case err != nil:
		return &sandbox.Error{Class: sandbox.ClassOf(err), Field: field, Reason: fmt.Sprintf("the secret %q", name), Err: err}
	case len(hosts) > 0 && !slices.ContainsFunc(hosts, func(of string) bool { return covers(of, host) }):
		return &sandbox.Error{Class: sandbox.Denied, Field: field, Reason: fmt.Sprintf("the secret %q may not be sent to %s", name, host),
			Remedy: "add the host to those of the secret"}
	case value == "" || len(value) > maxSecretBytes || !sandbox.IsHeaderText(value):
		return sandbox.Invalidf(field, "the value of the secret %q is empty, longer than %d bytes, or not what a header can have", name, maxSecretBytes)
	}
	if p.Secrets == nil {
		p.Secrets = map[string]Secret{}
	}
	p.Secrets[name] = NewSecret(value)
	return nil
}

func noSecret(field, name string, err error) error {
	e := sandbox.Invalidf(field, "no secret is called %q", name)
	e.Remedy = "`aether secret set " + name + "` makes it"
	e.Err = err
	return e
}

// covers says whether a host of a secret's is a host, or has all names below it.
func covers(of, host string) bool {
	of = strings.ToLower(of)
	if of == host {
		return true
	}
	below, wild := strings.CutPrefix(of, "*.")
	return wild && strings.HasSuffix(host, "."+below)
}
