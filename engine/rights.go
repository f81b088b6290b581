package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"aether/engine/access"
	"aether/sandbox"
)

// rights are what tenants may ask for and how much they have of it, and the trail of what
// they asked.
type rights struct {
	config    atomic.Pointer[access.Config]
	ledger    *access.Ledger
	admission atomic.Pointer[access.Admission]
	audit     *access.Audit
	// giveWay removes something of a tenant's that takes disk and that nobody asked for,
	// and says whether there was any.
	giveWay func(tenant string) bool
	// making is held by who has something give way.
	making sync.Mutex
}

func newRights(config access.Config) *rights {
	r := &rights{ledger: access.NewLedger()}
	r.set(config)
	return r
}

func (r *rights) set(config access.Config) {
	r.config.Store(&config)
	r.admission.Store(access.NewAdmission(config.Host))
}

// SetAccess has the engine decide by another configuration from now on. What tenants have
// already stays theirs, also if it is more than they may have now.
func (e *Engine) SetAccess(config access.Config) error {
	if e.fleet == nil {
		return errNoState
	}
	e.fleet.rights.set(config)
	return nil
}

// permit completes a Spec by the policy of its caller's tenant. Errors: Denied.
func (r *rights) permit(who Caller, spec sandbox.Spec) (sandbox.Spec, error) {
	return r.config.Load().Permit(who, spec)
}

// fetching has images be fetched with the logins of a tenant, if it is a tenant who asked
// for them. Operators have those of the host.
func (r *rights) fetching(ctx context.Context, tenant string, asked bool) context.Context {
	if !asked {
		return ctx
	}
	return sandbox.WithRegistries(ctx, r.config.Load().Registries(tenant))
}

// grant makes n sandboxes of a Spec for a tenant, if its quota and the host have room for
// them. If they cannot be made, nothing is taken. Errors: Exhausted; those of do.
func (r *rights) grant(who Caller, tenant string, spec sandbox.Spec, n int, do func([]*access.Grant) ([]*box, error)) ([]*box, error) {
	var grants []*access.Grant
	err := r.makeRoom(tenant, func() (err error) {
		grants, err = r.ledger.TakeEach(tenant, r.config.Load().Quota(who), access.UseOf(spec), n)
		return err
	})
	if err != nil {
		return nil, err
	}
	boxes, err := r.admit(spec, n, func() ([]*box, error) { return do(grants) })
	if err != nil {
		for _, g := range grants {
			g.Give()
		}
	}
	return boxes, err
}

// take takes a part of a tenant's quota for something that is no sandbox. Errors:
// Exhausted.
func (r *rights) take(who Caller, tenant string, use access.Use) (grant *access.Grant, err error) {
	err = r.makeRoom(tenant, func() (err error) {
		grant, err = r.ledger.Take(tenant, r.config.Load().Quota(who), use, 0)
		return err
	})
	return grant, err
}

// makeRoom takes a part of a tenant's quota by take, again as long as it wants disk and
// something else of the tenant's gives way. Who makes room meanwhile is waited for: what is
// on its way out there takes its part until it is gone, and may be all that there is.
func (r *rights) makeRoom(tenant string, take func() error) error {
	err := take()
	if !wantsDisk(err) || r.giveWay == nil {
		return err
	}
	r.making.Lock()
	defer r.making.Unlock()
	for {
		if err := take(); !wantsDisk(err) || !r.giveWay(tenant) {
			return err
		}
	}
}

// wantsDisk says whether something was refused for disk that others may give back.
func wantsDisk(err error) bool {
	var refusal *sandbox.Error
	return errors.As(err, &refusal) && refusal.Field == access.DiskQuota && refusal.Retry
}

func (r *rights) admit(spec sandbox.Spec, n int, do func() ([]*box, error)) ([]*box, error) {
	started, err := r.admission.Load().Admit(spec.Limits.MemoryBytes, n)
	if err != nil {
		return nil, err
	}
	defer started()
	return do()
}

// wake has a paused box run by do, if its tenant's quota and the host have room for it.
// Errors: Exhausted; those of do.
func (r *rights) wake(who Caller, b *box, do func() error) error {
	spec := b.copy().Spec
	if err := r.makeRoom(b.tenant, func() error { return b.grant.Change(r.config.Load().Quota(who), access.UseOf(spec)) }); err != nil {
		return err
	}
	_, err := r.admit(spec, 1, func() ([]*box, error) { return nil, do() })
	if err != nil {
		err = errors.Join(err, r.resize(b))
	}
	return err
}

// resize has the grant of a box be what its state takes.
func (r *rights) resize(b *box) error { return b.grant.Change(access.Quota{}, b.copy().use()) }

// use is what a sandbox takes of its tenant's quota: a paused one no memory and no CPUs.
func (r record) use() access.Use {
	use := access.UseOf(r.Spec)
	switch r.State {
	case Paused:
		use.MemoryBytes, use.MilliCPUs = 0, 0
	case Ended:
		use = access.Use{}
	}
	return use
}

// Used says what a tenant has and what it may have. Others than operators see their own.
// Errors: NotFound.
func (e *Engine) Used(_ context.Context, who Caller, tenant string) (access.Use, access.Quota, error) {
	switch {
	case e.fleet == nil:
		return access.Use{}, access.Quota{}, errNoState
	case !who.Operator && who.Tenant != tenant:
		return access.Use{}, access.Quota{}, &sandbox.Error{Class: sandbox.NotFound, Op: "engine", Field: "tenant", Reason: "there is no such tenant"}
	}
	return e.fleet.rights.ledger.Used(tenant), e.fleet.rights.config.Load().Quota(Caller{Tenant: tenant}), nil
}

// Record writes into the audit trail that a call began then and has ended now. Doors call
// it for every request, also for those that they refuse themselves.
func (e *Engine) Record(who Caller, from, what, on string, began time.Time, result error) {
	if e.fleet == nil {
		return
	}
	if err := e.fleet.rights.audit.Record(who, from, what, on, began, result); err != nil {
		e.log.Error("engine: a call could not be written into the audit trail", "who", who.Name, "what", what, "on", on, "err", err)
	}
}
