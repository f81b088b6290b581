package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"aether/sandbox"
)

// Login is what a tenant's images are fetched with from a registry.
type Login struct {
	Username string `json:"username"`
	// Password is the secret, or PasswordFile a file of the host that has it.
	Password     string `json:"password,omitempty"`
	PasswordFile string `json:"password_file,omitempty"`
}

// Registries is on whose behalf, and with which logins, a tenant's images are fetched.
func (c Config) Registries(tenant string) sandbox.Registries {
	r := sandbox.Registries{Tenant: tenant, Logins: map[string]sandbox.Login{}}
	for registry, login := range c.of(tenant).Logins {
		r.Logins[registry] = sandbox.Login{Username: login.Username, Password: login.Password}
	}
	return r
}

// readPasswords fills in those that are in files.
func (t Tenant) readPasswords(at string) error {
	for registry, login := range t.Logins {
		if login.PasswordFile == "" {
			continue
		}
		text, err := readFile(login.PasswordFile)
		if err != nil {
			return &sandbox.Error{Class: sandbox.Invalid, Field: at + ".logins." + registry + ".password_file", Err: err}
		}
		login.Password = strings.TrimRight(string(text), "\r\n")
		t.Logins[registry] = login
	}
	return nil
}

func (t Tenant) validateLogins(at string) error {
	for _, registry := range slices.Sorted(maps.Keys(t.Logins)) {
		login, at := t.Logins[registry], fmt.Sprintf("%s.logins.%s", at, registry)
		switch {
		case registry == "" || strings.ContainsAny(registry, "/ "):
			return sandbox.Invalidf(at, "%.80q is not a registry, such as ghcr.io or localhost:5000", registry)
		case login.Username == "":
			return sandbox.Invalidf(at+".username", "it is missing")
		case (login.Password == "") == (login.PasswordFile == ""):
			return sandbox.Invalidf(at+".password", "a password or a password_file is given, and one of them only")
		}
		if login.PasswordFile != "" {
			if err := hostPath(at+".password_file", login.PasswordFile); err != nil {
				return err
			}
		}
	}
	return nil
}
