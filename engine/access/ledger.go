package access

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"aether/sandbox"
)

// roomWait is when to try again where somebody has to give something back first:
// nobody knows when that will be.
const roomWait = time.Second

// Ledger is what tenants have at the moment. It is in memory: an engine that starts
// enters what it has found by Hold.
type Ledger struct {
	now func() time.Time

	mu       sync.Mutex
	accounts map[string]*account
}

type account struct {
	used amounts
	rate bucket
}

// NewLedger is one in which nobody has anything.
func NewLedger() *Ledger { return &Ledger{now: time.Now, accounts: map[string]*account{}} }

// Grant is a part of a tenant's quota that somebody has until Give.
type Grant struct {
	ledger *Ledger
	tenant string
	has    amounts // guarded by the ledger's mu
	given  bool
}

// Take takes a part of a tenant's quota for something new that counts as so many
// creations; all of it or nothing. Errors: Exhausted, with a time to wait where
// waiting helps.
func (l *Ledger) Take(tenant string, quota Quota, use Use, creations int) (*Grant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(tenant)
	if err := a.room(tenant, quota, amounts{}, use.amounts()); err != nil {
		return nil, err
	}
	if err := a.rate.take(tenant, quota.CreatesPerMinute, creations, l.now()); err != nil {
		return nil, err
	}
	return l.grant(tenant, a, use), nil
}

// TakeEach takes the parts of n new things that are alike; all of them or nothing. Errors:
// as Take.
func (l *Ledger) TakeEach(tenant string, quota Quota, use Use, n int) ([]*Grant, error) {
	all, err := l.Take(tenant, quota, use.Times(n), n)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(tenant)
	a.change(all, amounts{})
	grants := make([]*Grant, n)
	for i := range grants {
		grants[i] = l.grant(tenant, a, use)
	}
	return grants, nil
}

// Hold enters what a tenant has already, whatever its quota is by now.
func (l *Ledger) Hold(tenant string, use Use) *Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grant(tenant, l.account(tenant), use)
}

// Used is what a tenant has.
func (l *Ledger) Used(tenant string) Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.account(tenant).used.use()
}

// Tenants are those who have or had something, by name.
func (l *Ledger) Tenants() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.accounts))
}

func (l *Ledger) account(tenant string) *account {
	a := l.accounts[tenant]
	if a == nil {
		a = &account{}
		l.accounts[tenant] = a
	}
	return a
}

func (l *Ledger) grant(tenant string, a *account, use Use) *Grant {
	g := &Grant{ledger: l, tenant: tenant}
	a.change(g, use.amounts())
	return g
}

// Change has a grant be of another size, as when a sandbox is paused or resumed. What
// becomes less is never refused. Errors: Exhausted; Conflict after Give.
func (g *Grant) Change(quota Quota, use Use) error {
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	if g.given {
		return &sandbox.Error{Class: sandbox.Conflict, Op: "access", Reason: "the grant was given back"}
	}
	a := g.ledger.account(g.tenant)
	if err := a.room(g.tenant, quota, g.has, use.amounts()); err != nil {
		return err
	}
	a.change(g, use.amounts())
	return nil
}

// Give gives everything back. The second time does nothing.
func (g *Grant) Give() {
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	g.ledger.account(g.tenant).change(g, amounts{})
	g.given = true
}

func (a *account) change(g *Grant, to amounts) {
	for i := range to {
		a.used[i] += to[i] - g.has[i]
	}
	g.has = to
}

// room says whether what has so much may have so much. Hostile figures are any: no
// sum here may overflow.
func (a *account) room(tenant string, quota Quota, has, wants amounts) error {
	for i, bound := range quota.bounds() {
		others := a.used[i] - has[i]
		if wants[i] <= has[i] && wants[i] >= 0 || wants[i] >= 0 && others <= bound && wants[i] <= bound-others {
			continue
		}
		never := wants[i] < 0 || wants[i] > bound
		return exhausted("quota."+kinds[i], roomWait, never, "the tenant %s has %s of %s, and asks for %s", tenant, show(i, others), show(i, bound), show(i, wants[i]))
	}
	return nil
}

// show writes an amount in the unit of its quota.
func show(kind int, amount int64) string {
	if kinds[kind] == "cpus" && amount != math.MaxInt64 {
		return fmt.Sprint(float64(amount) / 1000)
	}
	return fmt.Sprint(amount)
}

func exhausted(field string, after time.Duration, never bool, format string, args ...any) error {
	err := &sandbox.Error{Class: sandbox.Exhausted, Op: "access", Field: field, Reason: fmt.Sprintf(format, args...), Retry: true, After: after}
	if never {
		err.Retry, err.After, err.Remedy = false, 0, "ask for less, or an operator for a larger quota"
	}
	return err
}
