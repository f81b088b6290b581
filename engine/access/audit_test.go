package access

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/engine/state"
	"aether/sandbox"
)

func openAudit(t *testing.T, path string, opts AuditOptions) (*Audit, func()) {
	t.Helper()
	dir, err := state.Open(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	a, err := OpenAudit(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return a, func() {
		t.Helper()
		if err := errors.Join(a.Close(), dir.Close()); err != nil {
			t.Error(err)
		}
	}
}

func entries(t *testing.T, a *Audit) (list []Entry) {
	t.Helper()
	if err := a.Each(func(e Entry) error { list = append(list, e); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestAuditSaysWhoDidWhat, of refusals too, and after the next start.
func TestAuditSaysWhoDidWhat(t *testing.T) {
	path := t.TempDir()
	a, end := openAudit(t, path, AuditOptions{})
	began := time.Now().Add(-time.Second)
	who := Caller{Tenant: "acme", Name: "0123456789abcdef"}
	refusal := Allow(Policy{}, sandbox.Spec{Image: "/etc"})
	err := errors.Join(
		a.Record(who, "", "sandbox.create", "sbx1", began, nil),
		a.Record(who, "", "sandbox.create", "", began, fmt.Errorf("create: %w", refusal)),
		a.Record(Caller{Name: "root", Operator: true}, "", "sandbox.list", "", began, errors.New("unclassified")))
	if err != nil {
		t.Fatal(err)
	}
	end()
	a, end = openAudit(t, path, AuditOptions{})
	defer end()
	got := entries(t, a)
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []Entry{
		{Who: who.Name, Tenant: "acme", What: "sandbox.create", On: "sbx1", Result: "ok"},
		{Who: who.Name, Tenant: "acme", What: "sandbox.create", Result: "denied", Reason: "create: " + refusal.Error()},
		{Who: "root", Operator: true, What: "sandbox.list", Result: "internal", Reason: "unclassified"},
	} {
		if got[i].Duration < time.Second || got[i].Duration > time.Minute || !got[i].Time.Equal(began.Round(0)) {
			t.Errorf("%v after %v, want %v", got[i].Duration, got[i].Time, began)
		}
		want.Time, want.Duration = got[i].Time, got[i].Duration
		if got[i] != want {
			t.Errorf("%+v, want %+v", got[i], want)
		}
	}
}

// TestHostileWordsInTheAudit: whatever a caller says is one bounded line of JSON.
func TestHostileWordsInTheAudit(t *testing.T) {
	path := t.TempDir()
	a, end := openAudit(t, path, AuditOptions{})
	words := []string{strings.Repeat("x", 1<<20), "a\n{\"who\":\"root\"}", "\x00\x1b[2J\xff\xfe", strings.Repeat("\x01", 5000), strings.Repeat("ü", 1000), "\u2028"}
	for _, word := range words {
		if err := a.Record(Caller{Tenant: word, Name: word}, "", word, word, time.Now(), errors.New(word)); err != nil {
			t.Error(err)
		}
	}
	for _, e := range entries(t, a) {
		if e.Who == "root" || len(e.On) > 2*maxAuditText || len(e.Reason) > 2*maxAuditText {
			t.Errorf("%+v", e)
		}
	}
	end()
	file, err := os.Open(filepath.Join(path, "audit.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := 0
	for scan := bufio.NewScanner(file); scan.Scan(); lines++ {
		if !json.Valid(scan.Bytes()) || strings.ContainsAny(scan.Text(), "\x00\x1b") {
			t.Errorf("%.80q", scan.Text())
		}
	}
	if lines != len(words) {
		t.Errorf("%d lines of %d", lines, len(words))
	}
}

// TestAuditIsBounded: of more calls than there is room for, the newest are there.
func TestAuditIsBounded(t *testing.T) {
	path := t.TempDir()
	a, end := openAudit(t, path, AuditOptions{FileBytes: 4096, Files: 3})
	defer end()
	const writers, each = 8, 100
	var work sync.WaitGroup
	for range writers {
		work.Go(func() {
			for range each {
				if err := a.Record(Caller{Name: "key"}, "", "sandbox.get", "sbx", time.Now(), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if err := a.Record(Caller{}, "", "last", "", time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	list := entries(t, a)
	if len(list) < 30 || len(list) > writers*each/2 || list[len(list)-1].What != "last" {
		t.Errorf("%d entries, the last is %+v", len(list), list[len(list)-1])
	}
	if files, err := filepath.Glob(filepath.Join(path, "audit.*")); err != nil || len(files) != 3 {
		t.Errorf("%v, %v", files, err)
	}
}

// TestRecordedIsInItsFile: whoever kills the program then finds the line.
func TestRecordedIsInItsFile(t *testing.T) {
	path := t.TempDir()
	a, end := openAudit(t, path, AuditOptions{})
	defer end()
	for n := range 20 {
		if err := a.Record(Caller{}, "", "call", fmt.Sprint(n), time.Now(), nil); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(path, "audit.1"))
		if err != nil || !strings.Contains(string(text), fmt.Sprintf(`"on":"%d"`, n)) {
			t.Errorf("%d is not there, %v", n, err)
		}
	}
}

func TestAuditAfterItsEnd(t *testing.T) {
	a, end := openAudit(t, t.TempDir(), AuditOptions{})
	end()
	if a.Record(Caller{}, "", "call", "", time.Now(), nil) == nil {
		t.Error("a call is recorded nowhere")
	}
}

func BenchmarkRecord(b *testing.B) {
	dir, err := state.Open(b.TempDir(), quiet)
	if err != nil {
		b.Fatal(err)
	}
	a, err := OpenAudit(dir, AuditOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := a.Record(Caller{Tenant: "acme", Name: "key"}, "", "sandbox.get", "sbx", time.Now(), nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(a.Close(), dir.Close()); err != nil {
		b.Fatal(err)
	}
}

// TestAuditPages: all pages together are the trail, over several files, also while it
// grows; a place whose file is gone goes on with the oldest line.
func TestAuditPages(t *testing.T) {
	a, end := openAudit(t, t.TempDir(), AuditOptions{FileBytes: 1000, Files: 4})
	defer end()
	record := func(n int) {
		t.Helper()
		if err := a.Record(Caller{Name: "root"}, "", "call", fmt.Sprint(n), time.Now(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 12 {
		record(n)
	}
	whole := entries(t, a)
	var got []Entry
	after, first := "", ""
	for {
		page, next, err := a.Page(after, 3)
		if err != nil || len(page) > 3 {
			t.Fatalf("%v, %v", page, err)
		}
		if got = append(got, page...); first == "" {
			first = next
			record(12)
		}
		if after = next; next == "" {
			break
		}
	}
	if len(got) != len(whole)+1 || got[0].On != whole[0].On || got[len(got)-1].On != "12" {
		t.Errorf("%d entries of %d: %+v", len(got), len(whole)+1, got)
	}
	for n := range 40 {
		record(100 + n)
	}
	if page, _, err := a.Page(first, 1); err != nil || len(page) != 1 || page[0].On != entries(t, a)[0].On {
		t.Errorf("%+v, %v", page, err)
	}
	for _, wrong := range []string{"x", "1", "-1.2", "1.-2"} {
		if _, _, err := a.Page(wrong, 1); sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
