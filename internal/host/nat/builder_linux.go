package nat

import (
	"errors"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Priorities of chains: before connections are noted, where most filters are, and where
// addresses are translated.
var (
	rawPriority         = *nftables.ChainPriorityRaw
	filterPriority      = *nftables.ChainPriorityFilter
	destinationPriority = *nftables.ChainPriorityNATDest
	sourcePriority      = *nftables.ChainPriorityNATSource
)

// builder puts a batch together, of which the kernel takes all or nothing.
type builder struct {
	tables *nftables.Conn
	table  *nftables.Table
	err    error // of what could not be put into it
}

// send sends the batch.
func (b *builder) send() error { return errors.Join(b.err, b.tables.Flush()) }

func (b *builder) set(s *nftables.Set, elements []nftables.SetElement) {
	b.err = errors.Join(b.err, b.tables.AddSet(s, elements))
}

func (b *builder) put(s *nftables.Set, elements []nftables.SetElement) {
	b.err = errors.Join(b.err, b.tables.SetAddElements(s, elements))
}

func (b *builder) take(s *nftables.Set, elements []nftables.SetElement) {
	b.err = errors.Join(b.err, b.tables.SetDeleteElements(s, elements))
}

// chain is one that the kernel asks.
func (b *builder) chain(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority nftables.ChainPriority, policy nftables.ChainPolicy) {
	b.tables.AddChain(&nftables.Chain{Table: b.table, Name: name, Type: kind, Hooknum: hook, Priority: &priority, Policy: &policy})
}

// inner is one that other chains ask.
func (b *builder) inner(name string) {
	b.tables.AddChain(&nftables.Chain{Table: b.table, Name: name})
}

func (b *builder) rule(chain string, exprs []expr.Any) {
	b.tables.AddRule(&nftables.Rule{Table: b.table, Chain: &nftables.Chain{Table: b.table, Name: chain}, Exprs: exprs})
}

func (b *builder) flush(chain string) {
	b.tables.FlushChain(&nftables.Chain{Table: b.table, Name: chain})
}

func (b *builder) remove(chain string) {
	b.tables.DelChain(&nftables.Chain{Table: b.table, Name: chain})
}
