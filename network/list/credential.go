package list

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/url"
)

const hidden = "[secret]"

// Credential is what a tool would show to a host. However it is printed, encoded or
// logged, it is [secret]: what is read back from there is a Credential that is not Known.
type Credential struct {
	// A function, so that printing a structure that holds one shows no byte of it even
	// where methods are not called, as those of fields that are not exported are not.
	reveal func() held
}

type held struct{ user, password, header string }

// basicCredential is a user and a password.
func basicCredential(user, password string) *Credential {
	both := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return &Credential{func() held { return held{user, password, "Basic " + both} }}
}

// tokenCredential is a token with the scheme that goes before it, if any does.
func tokenCredential(scheme, token string) *Credential {
	if scheme != "" {
		scheme += " "
	}
	return &Credential{func() held { return held{header: scheme + token} }}
}

// takeCredential gives what a URL has before its host, and removes it there.
func takeCredential(u *url.URL) *Credential {
	user := u.User
	u.User = nil
	if user == nil || user.String() == "" {
		return nil
	}
	password, _ := user.Password()
	return basicCredential(user.Username(), password)
}

// Known says whether the secret is here. It is not where the credential was read from a
// file of a Cache, which says only that there is one.
func (c *Credential) Known() bool { return c != nil && c.reveal != nil }

// Basic gives user and password, where it is made of these.
func (c *Credential) Basic() (user, password string, ok bool) {
	if !c.Known() {
		return "", "", false
	}
	h := c.reveal()
	return h.user, h.password, h.user != "" || h.password != ""
}

// Header gives the value of the header Authorization, or Proxy-Authorization for a
// proxy, that shows it; empty if it is not Known.
func (c *Credential) Header() string {
	if !c.Known() {
		return ""
	}
	return c.reveal().header
}

func (c *Credential) equal(other *Credential) bool { return c.Header() == other.Header() }

// Format implements fmt.Formatter, for every verb.
func (c Credential) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, hidden) }

// String implements fmt.Stringer.
func (c Credential) String() string { return hidden }

// LogValue implements slog.LogValuer.
func (c Credential) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements encoding.TextMarshaler, and with it that of JSON.
func (c Credential) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// UnmarshalText reads what MarshalText has written.
func (c *Credential) UnmarshalText(text []byte) error {
	if string(text) != hidden {
		return fmt.Errorf("list: a credential that is written is %s and nothing else", hidden)
	}
	c.reveal = nil
	return nil
}
