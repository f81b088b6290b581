package access

import (
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"aether/sandbox"
)

func checkExhausted(t *testing.T, what string, err error, field string, retry bool) *sandbox.Error {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.Exhausted || e.Field != field || e.Retry != retry || retry != (e.After > 0) {
		t.Errorf("%s: %#v, want exhausted %s, retry %v", what, err, field, retry)
		return &sandbox.Error{}
	}
	return e
}

func take(t *testing.T, l *Ledger, q Quota, use Use) *Grant {
	t.Helper()
	g, err := l.Take("acme", q, use, 1)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestQuotaBounds: each kind is bounded alone, and exactly.
func TestQuotaBounds(t *testing.T) {
	for field, c := range map[string]struct {
		quota Quota
		one   Use
	}{
		"quota.sandboxes":    {Quota{Sandboxes: new(int64(3))}, Use{Sandboxes: 1}},
		"quota.memory_bytes": {Quota{MemoryBytes: new(int64(3 << 20))}, Use{MemoryBytes: 1 << 20}},
		"quota.cpus":         {Quota{CPUs: new(0.3)}, UseOf(sandbox.Spec{Limits: sandbox.Limits{CPUs: 0.1}})},
		DiskQuota:            {Quota{DiskBytes: new(int64(3))}, Use{DiskBytes: 1}},
		"quota.snapshots":    {Quota{Snapshots: new(int64(3))}, Use{Snapshots: 1}},
	} {
		l := NewLedger()
		grants := []*Grant{take(t, l, c.quota, c.one), take(t, l, c.quota, c.one), take(t, l, c.quota, c.one)}
		_, err := l.Take("acme", c.quota, c.one, 1)
		checkExhausted(t, field, err, field, true)
		_, err = l.Take("other", c.quota, c.one.Times(4), 1)
		checkExhausted(t, "more than all", err, field, false)
		if _, err := l.Take("other", c.quota, c.one.Times(3), 1); err != nil {
			t.Errorf("%s of another tenant: %v", field, err)
		}
		grants[0].Give()
		grants[0].Give()
		grants[1] = take(t, l, c.quota, c.one)
		_, err = l.Take("acme", c.quota, c.one, 1)
		checkExhausted(t, "given twice", err, field, true)
		checkClass(t, "change after the end", grants[0].Change(c.quota, c.one), sandbox.Conflict)
	}
}

// TestGrantChanges: a sandbox that is paused has its disk alone, and is resumed if
// there is room again. Becoming less is always possible.
func TestGrantChanges(t *testing.T) {
	l, q := NewLedger(), Quota{MemoryBytes: new(int64(100)), Sandboxes: new(int64(2))}
	running, paused := Use{Sandboxes: 1, MemoryBytes: 60, DiskBytes: 5}, Use{Sandboxes: 1, DiskBytes: 5}
	a := take(t, l, q, running)
	if err := a.Change(q, paused); err != nil {
		t.Fatal(err)
	}
	b := take(t, l, q, running)
	checkExhausted(t, "resume", a.Change(q, running), "quota.memory_bytes", true)
	if got := l.Used("acme"); got != (Use{Sandboxes: 2, MemoryBytes: 60, DiskBytes: 10}) {
		t.Errorf("%+v", got)
	}
	less := Quota{MemoryBytes: new(int64(1)), Sandboxes: new(int64(0))}
	if err := b.Change(less, paused); err != nil {
		t.Errorf("less, of a quota that was lowered: %v", err)
	}
	if err := a.Change(q, running); err != nil {
		t.Error(err)
	}
	held := l.Hold("acme", running)
	for _, g := range []*Grant{a, b, held} {
		g.Give()
	}
	if got := l.Used("acme"); got != (Use{}) {
		t.Errorf("in the end %+v", got)
	}
}

// TestHostileAmounts: no figure makes room by overflowing.
func TestHostileAmounts(t *testing.T) {
	l := NewLedger()
	huge := Use{MemoryBytes: math.MaxInt64 - 1}
	take(t, l, Quota{}, huge)
	_, err := l.Take("acme", Quota{}, huge, 1)
	checkExhausted(t, "a second one", err, "quota.memory_bytes", true)
	_, err = l.Take("other", Quota{MemoryBytes: new(int64(1))}, Use{MemoryBytes: 1 << 62}.Times(4), 1) // 1<<64
	checkExhausted(t, "four", err, "quota.memory_bytes", false)
	_, err = l.Take("other", Quota{}, Use{MemoryBytes: -1}, 1)
	checkExhausted(t, "negative", err, "quota.memory_bytes", false)
}

// TestRate: a tenant that waits as long as it was told gets what it asked for.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, perMinute := range []float64{0.5, 1, 7, 60, 600} {
			l, q := NewLedger(), Quota{CreatesPerMinute: new(perMinute)}
			burst := int(math.Max(1, perMinute))
			if _, err := l.Take("acme", q, Use{}, burst); err != nil {
				t.Fatalf("%v: %v", perMinute, err)
			}
			for n := range min(3, burst) {
				_, err := l.Take("acme", q, Use{}, n+1)
				wait := checkExhausted(t, "at once", err, "quota.creates_per_minute", true).After
				if least := time.Duration(float64(n+1) / perMinute * float64(time.Minute)); (wait - least).Abs() > 5*time.Millisecond {
					t.Errorf("%v a minute: wait %v for %d", perMinute, wait, n+1)
				}
				time.Sleep(wait)
				if _, err := l.Take("acme", q, Use{}, n+1); err != nil {
					t.Errorf("%v a minute, after %v: %v", perMinute, wait, err)
				}
			}
			time.Sleep(time.Hour)
			if _, err := l.Take("acme", q, Use{}, burst); err != nil {
				t.Errorf("%v a minute, after an hour: %v", perMinute, err)
			}
			_, err := l.Take("acme", q, Use{}, 1)
			checkExhausted(t, "more than a minute's worth after an hour", err, "quota.creates_per_minute", true)
			_, err = l.Take("acme", q, Use{}, burst+1)
			checkExhausted(t, "more than a minute's worth", err, "quota.creates_per_minute", false)
		}
		_, err := NewLedger().Take("acme", Quota{CreatesPerMinute: new(0.0)}, Use{}, 1)
		checkExhausted(t, "none", err, "quota.creates_per_minute", false)
	})
}

// TestRefusedTakeTakesNothing, of the rate neither.
func TestRefusedTakeTakesNothing(t *testing.T) {
	l, q := NewLedger(), Quota{Sandboxes: new(int64(1)), CreatesPerMinute: new(2.0)}
	g := take(t, l, q, Use{Sandboxes: 1})
	for range 5 {
		_, err := l.Take("acme", q, Use{Sandboxes: 1}, 1)
		checkExhausted(t, "full", err, "quota.sandboxes", true)
	}
	g.Give()
	take(t, l, q, Use{Sandboxes: 1})
}

func TestQuotaOfManyAtOnce(t *testing.T) {
	l, q := NewLedger(), Quota{Sandboxes: new(int64(10))}
	var work sync.WaitGroup
	for range 50 {
		work.Go(func() {
			for range 200 {
				g, err := l.Take("acme", q, Use{Sandboxes: 1}, 1)
				if used := l.Used("acme").Sandboxes; used > 10 {
					t.Errorf("%d at once", used)
				}
				if err == nil {
					g.Give()
				}
			}
		})
	}
	work.Wait()
	if got := l.Used("acme"); got != (Use{}) {
		t.Errorf("%+v", got)
	}
}

// TestAdmission: sandboxes that are starting count, before the host's figures have
// them, and no longer when they have started.
func TestAdmission(t *testing.T) {
	a := NewAdmission(HostLimits{MemoryReserveBytes: new(int64(100)), MemoryClaimBytes: new(int64(40))})
	a.available = func() (int64, error) { return 200, nil }
	first, err := a.Admit(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Admit(1000, 1); err != nil {
		t.Fatal(err)
	}
	_, err = a.Admit(1000, 1)
	checkExhausted(t, "a third", err, "", true)
	if _, err := a.Admit(20, 1); err != nil {
		t.Errorf("a small one: %v", err)
	}
	first()
	first()
	if _, err := a.Admit(20, 2); err != nil {
		t.Errorf("two more: %v", err)
	}
	_, err = a.Admit(1, 1)
	checkExhausted(t, "full", err, "", true)
	a.available = func() (int64, error) { return 0, errors.ErrUnsupported }
	if _, err = a.Admit(1, 1); err != nil {
		t.Errorf("a host that cannot say: %v", err)
	}
}

// TestAdmissionOfThisHost asks the real one, by reserves that it has and has not.
func TestAdmissionOfThisHost(t *testing.T) {
	if _, err := available(); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this host does not say how much memory is available")
	}
	done, err := NewAdmission(HostLimits{MemoryReserveBytes: new(int64(0))}).Admit(1<<20, 1)
	if err != nil {
		t.Fatal(err)
	}
	done()
	_, err = NewAdmission(HostLimits{MemoryReserveBytes: new(int64(1 << 60))}).Admit(1<<20, 1)
	checkExhausted(t, "a reserve that no host has", err, "", true)
}

func BenchmarkAdmit(b *testing.B) {
	a := NewAdmission(HostLimits{MemoryReserveBytes: new(int64(0))})
	for b.Loop() {
		done, err := a.Admit(1<<20, 1)
		if err != nil {
			b.Fatal(err)
		}
		done()
	}
}
