package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

// crowded is an index of boxes, every tenth of them another tenant's.
func crowded(n int) *index {
	x, f := newIndex(), &fleet{}
	for i := range n {
		tenant := "alice"
		if i%10 == 9 {
			tenant = "bob"
		}
		r := record{Number: x.number()}
		r.ID, r.Tenant, r.State, r.Driver = fmt.Sprintf("box%05d", i), tenant, Running, "cell"
		r.Metadata = map[string]string{"half": fmt.Sprint(i % 2)}
		r.Spec.Metadata, r.Created = map[string]string{"third": fmt.Sprint(i % 3)}, time.Unix(int64(i), 0)
		x.add(f.newBox(r))
	}
	return x
}

var (
	anOperator = Caller{Operator: true}
	aTenant    = Caller{Tenant: "alice"}
)

// walk lists everything, page by page.
func walk(t *testing.T, x *index, who Caller, q Query, between func()) (ids []string) {
	t.Helper()
	for {
		page, err := x.page(who, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Sandboxes) == 0 && len(ids) > 0 {
			t.Error("an empty page was promised")
		}
		for _, s := range page.Sandboxes {
			ids = append(ids, s.ID)
		}
		if page.Next == "" {
			return ids
		}
		q.After = page.Next
		between()
	}
}

func TestPagesAreTheWhole(t *testing.T) {
	for name, c := range map[string]struct {
		who  Caller
		q    Query
		want int
	}{
		"everything":          {anOperator, Query{}, 500},
		"pages of seven":      {anOperator, Query{Limit: 7}, 500},
		"pages over the most": {anOperator, Query{Limit: 5000}, 500},
		"whole pages":         {anOperator, Query{Limit: 50}, 500},
		"a tenant's own":      {aTenant, Query{Limit: 7}, 450},
		"another tenant's":    {aTenant, Query{Tenant: "bob"}, 0},
		"one by an operator":  {anOperator, Query{Tenant: "bob"}, 50},
		"by metadata":         {aTenant, Query{Metadata: map[string]string{"half": "0"}, Limit: 9}, 250},
		"by what is not set":  {aTenant, Query{Metadata: map[string]string{"other": ""}}, 0},
		"by state":            {aTenant, Query{States: []State{Paused, Ended}}, 0},
		"by states":           {aTenant, Query{States: []State{Paused, Running}}, 450},
		"by driver":           {aTenant, Query{Driver: "runc"}, 0},
		"by template":         {aTenant, Query{Template: "t"}, 0},
		"by the Spec's words": {anOperator, Query{SpecMetadata: map[string]string{"third": "1"}, Limit: 7}, 167},
		"since then":          {anOperator, Query{Since: time.Unix(400, 0), Limit: 9}, 100},
		"oldest first":        {anOperator, Query{Oldest: true, Limit: 7}, 500},
	} {
		t.Run(name, func(t *testing.T) {
			x := crowded(500)
			ids := walk(t, x, c.who, c.q, func() {})
			if n := x.count(c.who, c.q); n != c.want {
				t.Errorf("%d are counted", n)
			}
			if c.q.Oldest {
				slices.Reverse(ids)
			}
			if len(ids) != c.want || !slices.IsSortedFunc(ids, func(a, b string) int { return strings.Compare(b, a) }) || len(slices.Compact(ids)) != c.want {
				t.Errorf("%d of %d, or not in order", len(ids), c.want)
			}
		})
	}
}

// TestPagesWhileItChanges: who was there all the time is listed once.
func TestPagesWhileItChanges(t *testing.T) {
	x := crowded(300)
	next := 300
	ids := walk(t, x, anOperator, Query{Limit: 10}, func() {
		r := record{Number: x.number()}
		r.ID, r.Tenant = fmt.Sprintf("box%05d", next), "alice"
		x.add((&fleet{}).newBox(r))
		x.remove(x.boxes[fmt.Sprintf("box%05d", next-1)]) // the newest before
		next++
	})
	if len(ids) != 300 {
		t.Errorf("%d were listed, and 300 were there", len(ids))
	}
}

func TestQueryRefuses(t *testing.T) {
	for field, q := range map[string]Query{"after": {After: "x"}, "limit": {Limit: -1}} {
		_, err := crowded(1).page(anOperator, q)
		if sandbox.ClassOf(err) != sandbox.Invalid || err.(*sandbox.Error).Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestAPageCostsTheSame: one of 100 out of 10,000 takes at most twice as long as one of
// 100 out of 100.
func TestAPageCostsTheSame(t *testing.T) {
	few, many := crowded(100), crowded(10_000)
	q := Query{After: "5000"}
	best := map[*index]time.Duration{few: time.Hour, many: time.Hour}
	for range 500 {
		for x, at := range map[*index]Query{few: {}, many: q} {
			start := time.Now()
			if page, err := x.page(anOperator, at); err != nil || len(page.Sandboxes) != 100 {
				t.Fatal(len(page.Sandboxes), err)
			}
			best[x] = min(best[x], time.Since(start))
		}
	}
	if best[many] > 2*best[few] {
		t.Errorf("a page takes %v, and one of few %v", best[many], best[few])
	}
}

// TestEndedAreForgotten: of each tenant the last are remembered.
func TestEndedAreForgotten(t *testing.T) {
	x := crowded(2000)
	var forgotten []*box
	for _, b := range x.each() {
		forgotten = append(forgotten, x.end(b)...)
	}
	if len(forgotten) != 1800-keepEnded || forgotten[0].id != "box00000" {
		t.Errorf("%d are forgotten", len(forgotten))
	}
	if got := len(x.each()); got != 200+keepEnded {
		t.Errorf("%d are left", got)
	}
	if _, err := x.find(anOperator, "box00000"); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Error(err)
	}
}
