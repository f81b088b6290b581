package engine

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"aether/engine/access"
	"aether/engine/secret"
	"aether/sandbox"
)

// Secret is what is told of a secret of a tenant: all but its value.
type Secret = secret.Secret

// SecretValue is the value of a secret, which prints as [secret].
type SecretValue = secret.Value

// NewSecretValue checks a text and copies it. Errors: Invalid for the field value.
func NewSecretValue(text []byte) (SecretValue, error) { return secret.NewValue(text) }

// IsSecretName says whether a text can name a secret.
func IsSecretName(text string) bool { return secret.IsName(text) }

// SecretRequest is what a secret is to be.
type SecretRequest struct {
	// Tenant is whose it is, for operators; empty is the caller's own.
	Tenant string `json:"-"`
	// Name is letters, digits and underscores, at most 64, with no digit first.
	Name string `json:"-"`
	// Value is 1 byte to 64 KiB of text that a header of HTTP can have.
	Value SecretValue `json:"value"`
	// Hosts are those that it may be sent to, as api.example.com or *.example.com. Nil
	// leaves them as they are, and of a new secret is no restriction; so is an empty list.
	Hosts []string `json:"hosts,omitzero"`
	// Metadata is kept and told with it: up to 32 entries of 8 KiB. Nil leaves it as it is.
	Metadata map[string]string `json:"metadata,omitzero"`
}

// SecretQuery chooses secrets.
type SecretQuery struct {
	Tenant string // of operators; others see their own
	// After is the Next of the page before, and Limit the length of a page, 100 at most
	// and by default.
	After string
	Limit int
}

// SecretPage is a part of a list, by tenant and name.
type SecretPage struct {
	Secrets []Secret `json:"secrets"`
	// Next is empty on the last page.
	Next string `json:"next,omitempty"`
}

// openSecrets finds the secrets of a state directory.
func (f *fleet) openSecrets() (err error) {
	f.secrets, err = secret.Open(f.dir, f.engine.log, func(tenant string) func() {
		return f.rights.ledger.Hold(tenant, access.Use{Secrets: 1}).Give
	})
	return err
}

// SetSecret makes a secret or replaces its value, which is on disk when it returns, and is
// what sandboxes that send it send from then on, also if the context ends meanwhile. The
// caller may clear the value then. Errors: Invalid; Exhausted; NotFound for another tenant;
// Unavailable while the key file of the state directory cannot be used.
func (e *Engine) SetSecret(ctx context.Context, who Caller, req SecretRequest) (Secret, error) {
	ctx, release, err := e.enterFleet(context.WithoutCancel(ctx))
	if err != nil {
		return Secret{}, err
	}
	defer release()
	made, err := e.fleet.setSecret(who, req)
	if err != nil {
		return Secret{}, fmt.Errorf("engine: set secret: %w", err)
	}
	e.fleet.renewSecret(ctx, made.Tenant, made.Name)
	return made, nil
}

func (f *fleet) setSecret(who Caller, req SecretRequest) (_ Secret, err error) {
	id, err := secretOf(who, req.Tenant, req.Name)
	if err != nil {
		return Secret{}, err
	}
	if err := secret.CheckName(req.Name); err != nil {
		return Secret{}, err
	}
	if req.Hosts != nil {
		if req.Hosts, err = secret.CheckHosts(req.Hosts); err != nil {
			return Secret{}, err
		}
	}
	if err := secret.CheckMetadata(req.Metadata); err != nil {
		return Secret{}, err
	}
	return f.secrets.Set(id, req.Value, req.Hosts, req.Metadata, func() (func(), error) {
		quota := f.rights.config.Load().Quota(Caller{Tenant: id.Tenant})
		grant, err := f.rights.ledger.Take(id.Tenant, quota, access.Use{Secrets: 1}, 0)
		if err != nil {
			return nil, err
		}
		return grant.Give, nil
	})
}

// secretOf is whose secret a caller means. Errors: NotFound for what is another tenant's;
// Invalid for what is no tenant.
func secretOf(who Caller, tenant, name string) (secret.ID, error) {
	id := secret.ID{Tenant: cmp.Or(tenant, who.Tenant), Name: name}
	switch {
	case !sees(who, id.Tenant):
		return secret.ID{}, secret.NotFound(name)
	case !sandbox.IsName(id.Tenant, maxName):
		return secret.ID{}, sandbox.Invalidf("tenant", "%.80q must be lower-case letters, digits and dashes, at most %d", id.Tenant, maxName)
	}
	return id, nil
}

// Secrets gives a page of what is told of the secrets that the caller may see, by tenant
// and name. Errors: Invalid.
func (e *Engine) Secrets(_ context.Context, who Caller, q SecretQuery) (SecretPage, error) {
	if e.fleet == nil {
		return SecretPage{}, errNoState
	}
	after, err := q.begin()
	if err != nil {
		return SecretPage{}, err
	}
	list, more := e.fleet.secrets.Page(after, min(cmp.Or(q.Limit, maxPage), maxPage), func(tenant string) bool {
		return sees(who, tenant) && (q.Tenant == "" || q.Tenant == tenant)
	})
	page := SecretPage{Secrets: list}
	if more {
		last := list[len(list)-1]
		page.Next = last.Tenant + "/" + last.Name
	}
	return page, nil
}

// begin is after which secret a page begins.
func (q SecretQuery) begin() (secret.ID, error) {
	if q.Limit < 0 {
		return secret.ID{}, sandbox.Invalidf("limit", "%d is negative", q.Limit)
	}
	tenant, name, ok := strings.Cut(q.After, "/")
	if !ok && q.After != "" {
		return secret.ID{}, sandbox.Invalidf("after", "it is not the next of a page")
	}
	return secret.ID{Tenant: cmp.Or(tenant, q.Tenant), Name: name}, nil
}

// RemoveSecret removes a secret of a tenant, of the caller's own if that is empty, from the
// disk too. Sandboxes that send it do not reach the hosts that it is for any more, also if
// the context ends meanwhile. Errors: NotFound.
func (e *Engine) RemoveSecret(ctx context.Context, who Caller, tenant, name string) error {
	ctx, release, err := e.enterFleet(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer release()
	id, err := secretOf(who, tenant, name)
	if err == nil {
		err = e.fleet.secrets.Remove(id)
	}
	if err != nil {
		return fmt.Errorf("engine: remove secret: %w", err)
	}
	e.fleet.renewSecret(ctx, id.Tenant, id.Name)
	return nil
}

// secretValue gives the value of a tenant's secret, and the hosts that it may be sent to,
// to whatever of the engine sends it there; whoever asks clears it after use. No door has a
// way to it. Errors: NotFound; Unavailable for one that cannot be decrypted.
func (f *fleet) secretValue(tenant, name string) (value SecretValue, hosts []string, err error) {
	return f.secrets.Value(secret.ID{Tenant: tenant, Name: name})
}
