package engine

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"aether/sandbox"
)

const (
	maxPage = 100
	// keepEnded is how many of the sandboxes of a tenant that have ended are remembered.
	keepEnded = 512
)

// index finds boxes by id, and lists them newest first from any place on.
type index struct {
	mu      sync.RWMutex
	last    uint64 // number of the newest
	boxes   map[string]*box
	all     []*box // by number
	tenants map[string][]*box
	ended   map[string][]*box // by tenant, in the order in which they ended
}

func newIndex() *index {
	return &index{boxes: map[string]*box{}, tenants: map[string][]*box{}, ended: map[string][]*box{}}
}

// number gives the next box its place in the order of creation.
func (x *index) number() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last++
	return x.last
}

// numbered is what has a place in the order of creation.
type numbered interface{ place() uint64 }

func (b *box) place() uint64 { return b.number }

func byNumber[N numbered](of N, number uint64) int { return cmp.Compare(of.place(), number) }

// insert keeps a list in order; nearly always it appends.
func insert[N numbered](list []N, one N) []N {
	at, _ := slices.BinarySearchFunc(list, one.place(), byNumber)
	return slices.Insert(list, at, one)
}

func cut[N numbered](list []N, one N) []N {
	if at, found := slices.BinarySearchFunc(list, one.place(), byNumber); found {
		return slices.Delete(list, at, at+1)
	}
	return list
}

func (x *index) add(b *box) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last = max(x.last, b.number)
	x.boxes[b.id] = b
	x.all, x.tenants[b.tenant] = insert(x.all, b), insert(x.tenants[b.tenant], b)
}

func (x *index) remove(b *box) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(b)
}

// drop is remove with x.mu held.
func (x *index) drop(b *box) {
	delete(x.boxes, b.id)
	x.all = cut(x.all, b)
	if x.tenants[b.tenant] = cut(x.tenants[b.tenant], b); len(x.tenants[b.tenant]) == 0 {
		delete(x.tenants, b.tenant)
	}
}

// end notes that a box has ended, and gives those that are forgotten for it.
func (x *index) end(b *box) (forgotten []*box) {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := append(x.ended[b.tenant], b)
	for ; len(list) > keepEnded; list = list[1:] {
		x.drop(list[0])
		forgotten = append(forgotten, list[0])
	}
	x.ended[b.tenant] = list
	return forgotten
}

// find gives what the caller may know of. Errors: NotFound, also for what is another
// tenant's.
func (x *index) find(who Caller, id string) (*box, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if b := x.boxes[id]; b != nil && sees(who, b.tenant) {
		return b, nil
	}
	return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "engine", Reason: "there is no sandbox " + strconv.Quote(clip(id, 80))}
}

// each lists every box, oldest first.
func (x *index) each() []*box {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Clone(x.all)
}

// page lists from a place on. What it costs does not grow with what there is, unless
// most of that is not wanted.
func (x *index) page(who Caller, q Query) (Page, error) {
	after, err := q.after()
	if err != nil {
		return Page{}, err
	}
	limit := min(cmp.Or(q.Limit, maxPage), maxPage)
	x.mu.RLock()
	defer x.mu.RUnlock()
	page, last := Page{Sandboxes: []Sandbox{}}, uint64(0)
	for b := range q.from(x.listOf(who, q), after) {
		s := b.view()
		if !q.wants(s) {
			continue
		}
		if len(page.Sandboxes) == limit {
			page.Next = strconv.FormatUint(last, 10)
			break
		}
		page.Sandboxes, last = append(page.Sandboxes, s), b.number
	}
	return page, nil
}

// from lists the boxes that come after a number, in the order that is asked for.
func (q Query) from(list []*box, after uint64) iter.Seq[*box] {
	return func(yield func(*box) bool) {
		at, found := slices.BinarySearchFunc(list, after, byNumber)
		if !q.Oldest {
			for at--; at >= 0 && yield(list[at]); at-- {
			}
			return
		}
		if found {
			at++
		}
		for ; at < len(list) && yield(list[at]); at++ {
		}
	}
}

// count says how many a query would list in all its pages.
func (x *index) count(who Caller, q Query) (n int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, b := range x.listOf(who, q) {
		if q.wants(b.view()) {
			n++
		}
	}
	return n
}

// listOf is whose sandboxes are looked through.
func (x *index) listOf(who Caller, q Query) []*box {
	switch {
	case !who.Operator && q.Tenant != "" && q.Tenant != who.Tenant:
		return nil
	case !who.Operator:
		return x.tenants[who.Tenant]
	case q.Tenant != "":
		return x.tenants[q.Tenant]
	}
	return x.all
}

// after is the number after which a page begins, in its order.
func (q Query) after() (uint64, error) {
	if q.Limit < 0 {
		return 0, sandbox.Invalidf("limit", "%d is negative", q.Limit)
	}
	if q.After == "" && q.Oldest {
		return 0, nil
	}
	if q.After == "" {
		return ^uint64(0), nil
	}
	number, err := strconv.ParseUint(q.After, 10, 64)
	if err != nil {
		return 0, sandbox.Invalidf("after", "%.40q is not the next of a page", q.After)
	}
	return number, nil
}

// wants says whether all that is set holds.
func (q Query) wants(s Sandbox) bool {
	return holds(q.Metadata, s.Metadata) && holds(q.SpecMetadata, s.Spec.Metadata) && !s.Created.Before(q.Since) && (len(q.States) == 0 || slices.Contains(q.States, s.State)) &&
		(q.Driver == "" || q.Driver == s.Driver) && (q.Template == "" || q.Template == s.Template || strings.HasPrefix(s.Template, q.Template+"@"))
}

// holds says whether metadata has all that is wanted of it.
func holds(want, metadata map[string]string) bool {
	for key, value := range want {
		if got, there := metadata[key]; !there || got != value {
			return false
		}
	}
	return true
}

// sees says whether what is a tenant's is the caller's to see.
func sees(c Caller, tenant string) bool { return c.Operator || c.Tenant == tenant }

// clip bounds a text that is not ours.
func clip(text string, most int) string {
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
