package nat

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// write adds the rules to the batch, in chains that are empty.
func (p *Port) write(b *builder, rules Rules) {
	if rules.Rate > 0 {
		b.rule(p.rates(), all(more(expr.LimitTypePktBytes, uint64(rules.Rate), uint32(max(0, leastBurst-rules.Rate))), drop))
	}
	b.rule(p.asks(), all(state(expr.CtStateBitNEW), over(maxQuestions), drop))
	b.rule(p.asks(), accept)
	b.rule(p.name, verdict(expr.VerdictJump, p.rates()))
	b.rule(p.name, all(state(expr.CtStateBitESTABLISHED), accept))
	admit := verdict(expr.VerdictGoto, p.admits())
	p.sets = make([]*nftables.Set, len(rules.Matches))
	p.generation++
	for i, m := range rules.Matches {
		why := uint32(markOuter)
		if m.Local {
			why = markLocal
		}
		end := all(mark(why), admit)
		if m.Deny {
			end = deny
		}
		b.rule(p.name, all(protocol(m.UDP), ports(m.First, m.Last), p.addresses(b, i, m), end))
	}
	if rules.Public {
		b.rule(p.name, all(protocol(false), verdict(expr.VerdictJump, publicChain)))
		b.rule(p.name, all(marked(markOuter), admit))
	}
	b.rule(p.name, deny)
	b.rule(p.admits(), all(more(expr.LimitTypePkts, newConnection, newBurst), deny))
	b.rule(p.admits(), all(over(rules.Connections), deny))
	b.rule(p.admits(), accept)
}

// addresses fits those of a match, for which it makes a set if they change.
func (p *Port) addresses(b *builder, i int, m Match) []expr.Any {
	if m.Prefix.IsValid() {
		return within(destinationOffset, m.Prefix)
	}
	set := &nftables.Set{Table: b.table, Name: fmt.Sprintf("%s-%d-%d", p.name, p.generation, i), KeyType: nftables.TypeIPAddr}
	b.set(set, elements(m.Addresses))
	p.sets[i] = set
	return []expr.Any{address(destinationOffset), lookup(set)}
}

func elements(list []netip.Addr) (all []nftables.SetElement) {
	for _, a := range list {
		all = append(all, nftables.SetElement{Key: a.AsSlice()})
	}
	return all
}

// erase adds to the batch the end of the rules and of their sets.
func (p *Port) erase(b *builder) {
	for _, chain := range p.chains() {
		b.flush(chain)
	}
	for _, set := range p.sets {
		if set != nil {
			b.tables.DelSet(set)
		}
	}
}
