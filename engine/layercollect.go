package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"aether/sandbox"
)

// idle are the layers that no preparation uses, least recently used first. Whoever uses a
// layer uses those below it, which so come after it.
func (l *layers) idle() (list []layerRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.byKey {
		if one.users == 0 {
			list = append(list, one.record)
		}
	}
	slices.SortFunc(list, func(a, b layerRecord) int {
		return cmp.Or(a.Used.Compare(b.Used), cmp.Compare(b.Step, a.Step), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// evict removes a layer unless somebody uses it by now, and says whether it did.
func (l *layers) evict(r layerRecord) bool {
	l.mu.Lock()
	one := l.byKey[r.Key]
	if one == nil || one.record.ID != r.ID || one.users > 0 {
		l.mu.Unlock()
		return false
	}
	delete(l.byKey, r.Key)
	one.gone = true
	l.mu.Unlock()
	l.remove(one)
	return true
}

// giveWay removes the layer of a tenant that was used least recently, so that the tenant
// has room for something that it asked for, and says whether there was one.
func (l *layers) giveWay(tenant string) bool {
	for _, r := range l.idle() {
		if r.Tenant == tenant && l.evict(r) {
			return true
		}
	}
	return false
}

// collect removes the layers that no preparation uses and that were last used before a
// time, least recently used first, until the rest is at most as large as what may stay; in
// a dry run it says which it would.
func (l *layers) collect(before time.Time, spare int64, dry bool) (gone []sandbox.Collected) {
	list := l.idle()
	total := int64(0)
	for _, r := range list {
		total += r.Size
	}
	for _, r := range list {
		if r.Used.After(before) || spare > 0 && total <= spare {
			break
		}
		if dry || l.evict(r) {
			total -= r.Size
			gone = append(gone, sandbox.Collected{Kind: "recipe layer", Name: r.name(), Bytes: r.Size})
		}
	}
	return gone
}

// name is what operators know a layer by.
func (r layerRecord) name() string {
	return fmt.Sprintf("%s/%s after %s", r.Tenant, r.ID, r.Command)
}

// LayerUse is how much there is of layers.
type LayerUse struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
	// InUse is how many of them running preparations use, which stay.
	InUse int `json:"in_use"`
}

// used counts all layers.
func (l *layers) used() (sum LayerUse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.byKey {
		sum.Count, sum.Bytes = sum.Count+1, sum.Bytes+one.record.Size
		if one.users > 0 {
			sum.InUse++
		}
	}
	return sum
}
