package access

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"aether/sandbox"
)

// maxConfig bounds the file of an operator, who may have named another one.
const maxConfig = 4 << 20

// Config is what an operator has decided about tenants. The zero value is a good one:
// tenants name nothing of the host and have no quotas.
type Config struct {
	Host HostLimits `json:"host,omitzero"`
	// Default is for tenants that are not in Tenants. One that is there has what its
	// entry says, and nothing of the default.
	Default Tenant            `json:"default,omitzero"`
	Tenants map[string]Tenant `json:"tenants,omitempty"`
}

// Tenant is what is decided about one.
type Tenant struct {
	Policy Policy `json:"policy,omitzero"`
	Quota  Quota  `json:"quota,omitzero"`
	// Logins are those of the tenant at registries, which are by name. Images of others
	// are fetched without one: what the host can log in to is nobody's.
	Logins map[string]Login `json:"logins,omitempty"`
}

// ReadConfig reads a file of JSON. Errors: Invalid with the path of the field, as
// tenants.acme.quota.memory_bytes; NotFound.
func ReadConfig(name string) (Config, error) {
	text, err := readFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return Config{}, &sandbox.Error{Class: sandbox.NotFound, Op: "access: configuration", Err: err}
	}
	if err != nil {
		return Config{}, fmt.Errorf("access: configuration: %w", err)
	}
	c, err := ParseConfig(text)
	if err == nil {
		err = c.readPasswords()
	}
	if err != nil {
		return Config{}, fmt.Errorf("access: configuration %s: %w", name, err)
	}
	return c, nil
}

func readFile(name string) (text []byte, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err = io.ReadAll(io.LimitReader(file, maxConfig+1))
	if len(text) > maxConfig {
		return nil, sandbox.Invalidf("config", "%s has more than %d bytes", name, maxConfig)
	}
	return text, err
}

// ParseConfig is ReadConfig of a text.
func ParseConfig(text []byte) (Config, error) {
	var c Config
	if err := decodeStrict(text, &c); err != nil {
		return Config{}, err
	}
	if err := c.validate(); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (c Config) readPasswords() error {
	if err := c.Default.readPasswords("default"); err != nil {
		return err
	}
	for name, t := range c.Tenants {
		if err := t.readPasswords("tenants." + name); err != nil {
			return err
		}
	}
	return nil
}

// Permit completes a Spec by the policy of its caller's tenant and says whether that
// allows it. Operators may ask for anything. Errors: Denied, with the field.
func (c Config) Permit(who Caller, spec sandbox.Spec) (sandbox.Spec, error) {
	if who.Operator {
		return spec, nil
	}
	tenant := c.of(who.Tenant)
	spec = tenant.Policy.Complete(spec)
	if err := Allow(tenant.Policy, spec); err != nil {
		return sandbox.Spec{}, err
	}
	if err := tenant.Quota.countable(spec.Limits); err != nil {
		return sandbox.Spec{}, err
	}
	return spec, nil
}

// PermitVolume says whether a caller may have a volume of so many bytes, zero for one
// without a bound. Operators may have any. Errors: Denied.
func (c Config) PermitVolume(who Caller, bytes int64) error {
	tenant := c.of(who.Tenant)
	if who.Operator || bytes > 0 || tenant.Policy.UnboundedDisk && tenant.Quota.DiskBytes == nil {
		return nil
	}
	return denied("bytes", "state a bound", "a volume of a tenant is bounded")
}

// Quota is that of a caller's tenant. Operators have none, but for secrets, which are
// bounded for everybody.
func (c Config) Quota(who Caller) (q Quota) {
	if !who.Operator {
		q = c.of(who.Tenant).Quota
	}
	if q.Secrets == nil {
		q.Secrets = new(int64(DefaultSecrets))
	}
	return q
}

func (c Config) of(tenant string) Tenant {
	if t, ok := c.Tenants[tenant]; ok {
		return t
	}
	return c.Default
}

func (c Config) validate() error {
	if err := c.Host.validate("host"); err != nil {
		return err
	}
	if err := c.Default.validate("default"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tenants)) {
		at := "tenants." + name
		if !sandbox.IsName(name, maxTenant) {
			return sandbox.Invalidf(at, "a tenant's name is lower-case letters, digits and dashes, at most %d", maxTenant)
		}
		if err := c.Tenants[name].validate(at); err != nil {
			return err
		}
	}
	return nil
}

func (t Tenant) validate(at string) error {
	if err := t.Quota.validate(at + ".quota"); err != nil {
		return err
	}
	if err := t.validateLogins(at); err != nil {
		return err
	}
	return t.Policy.validate(at + ".policy")
}

func (p Policy) validate(at string) error {
	for i, m := range p.Mounts {
		if err := hostPath(fmt.Sprintf("%s.mounts[%d].source", at, i), m.Source); err != nil {
			return err
		}
	}
	for i, image := range p.Images {
		if err := hostPath(fmt.Sprintf("%s.images[%d]", at, i), image); err != nil {
			return err
		}
	}
	for name, limits := range map[string]sandbox.Limits{"default_limits": p.DefaultLimits, "max_limits": p.MaxLimits} {
		var e *sandbox.Error
		if err := (sandbox.Spec{Limits: limits}).Validate(); errors.As(err, &e) {
			return sandbox.Invalidf(at+"."+name+strings.TrimPrefix(e.Field, "limits"), "%s", e.Reason)
		}
	}
	return nil
}

// hostPath checks a path that tenants shall be able to name: it is compared with what
// they write, so that it has one spelling.
func hostPath(field, name string) error {
	if !path.IsAbs(name) || path.Clean(name) != name || name == "/" || strings.ContainsRune(name, 0) {
		return sandbox.Invalidf(field, "%.80q is not a whole path below /, without dots and double slashes", name)
	}
	return nil
}
