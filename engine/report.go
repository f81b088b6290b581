package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"aether/engine/access"
	"aether/sandbox"
)

// TenantQuota is what a tenant has and what it may have.
type TenantQuota struct {
	Tenant string       `json:"tenant"`
	Used   access.Use   `json:"used"`
	Quota  access.Quota `json:"quota"`
}

// Quotas says what a tenant has and may have; without one, it says so of all tenants that
// have something or are in the configuration, to operators, and of the caller to others.
// Errors: NotFound for another's.
func (e *Engine) Quotas(ctx context.Context, who Caller, tenant string) ([]TenantQuota, error) {
	if e.fleet == nil {
		return nil, errNoState
	}
	tenants := []string{cmp.Or(tenant, who.Tenant)}
	if who.Operator && tenant == "" {
		configured := slices.Sorted(maps.Keys(e.fleet.rights.config.Load().Tenants))
		tenants = slices.Concat(e.fleet.rights.ledger.Tenants(), configured)
		slices.Sort(tenants)
		tenants = slices.Compact(tenants)
	}
	list := make([]TenantQuota, 0, len(tenants))
	for _, name := range tenants {
		used, quota, err := e.Used(ctx, who, name)
		if err != nil {
			return nil, err
		}
		list = append(list, TenantQuota{name, used, quota})
	}
	return list, nil
}

// AuditEntry is a call that is on the audit trail.
type AuditEntry = access.Entry

// AuditPage is a part of the audit trail, oldest first.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	// Next is where the next page begins; empty if there is nothing more yet.
	Next string `json:"next,omitempty"`
}

// Audit gives a page of the audit trail after a place, which is the Next of the page
// before. Errors: Denied for others than operators; Invalid.
func (e *Engine) Audit(_ context.Context, who Caller, after string, limit int) (AuditPage, error) {
	switch {
	case e.fleet == nil:
		return AuditPage{}, errNoState
	case !who.Operator:
		return AuditPage{}, &sandbox.Error{Class: sandbox.Denied, Op: "engine: audit", Reason: "only operators may"}
	case limit < 0:
		return AuditPage{}, sandbox.Invalidf("limit", "%d is negative", limit)
	}
	entries, next, err := e.fleet.rights.audit.Page(after, min(cmp.Or(limit, maxPage), maxPage))
	return AuditPage{entries, next}, err
}

// Key is what is known of a key by which callers are known.
type Key = access.Key
