package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// TestOperatorsOverHTTP: keys, quotas, the audit trail, the doctor and pruning, which
// tenants are refused, but for their own quota.
func TestOperatorsOverHTTP(t *testing.T) {
	state := t.TempDir()
	config := filepath.Join(state, "tenants.json")
	if err := os.WriteFile(config, []byte(`{"default": {"policy": {"unbounded_memory": true, "unbounded_disk": true}, "quota": {"sandboxes": 3}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, state, "--config", config)
	operator := s.client()
	made, err := operator.CreateKey(t.Context(), rest.KeyRequest{Tenant: "acme", Expires: time.Now().Add(time.Hour)})
	if err != nil || len(made.Secret) != 44 {
		t.Fatalf("%+v, %v", made, err)
	}
	acme := dialService(t, "http://"+s.address, made.Secret)
	box, err := acme.Create(t.Context(), engine.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"keys": refusalOf(acme.ListKeys(t.Context())), "audit": refusalOf(acme.Audit(t.Context(), "", 0)), "doctor": refusalOf(acme.Doctor(t.Context())),
		"prune": refusalOf(acme.Prune(t.Context(), engine.PruneRequest{DryRun: true})), "key": refusalOf(acme.CreateKey(t.Context(), rest.KeyRequest{Tenant: "acme", Operator: true})),
	} {
		if sandbox.ClassOf(err) != sandbox.Denied {
			t.Errorf("%s: %v", what, err)
		}
	}
	own, err := acme.Quotas(t.Context(), "")
	if err != nil || len(own) != 1 || own[0].Used.Sandboxes != 1 || *own[0].Quota.Sandboxes != 3 {
		t.Errorf("%+v, %v", own, err)
	}
	wantClass(t, refusalOf(acme.Quotas(t.Context(), "default")), sandbox.NotFound)
	if all, err := operator.Quotas(t.Context(), ""); err != nil || len(all) == 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if found, err := operator.Doctor(t.Context()); err != nil || len(found.Stuck) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if report, err := operator.Prune(t.Context(), engine.PruneRequest{DryRun: true}); err != nil || report.Removed == nil {
		t.Errorf("%+v, %v", report, err)
	}
	keys, err := operator.ListKeys(t.Context())
	if err != nil || len(keys) != 1 || keys[0].ID != made.ID {
		t.Fatalf("%+v, %v", keys, err)
	}
	if err := operator.RevokeKey(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	wantClass(t, refusalOf(acme.Get(t.Context(), box.ID)), sandbox.Denied)
	wantClass(t, operator.RevokeKey(t.Context(), "0000000000000000"), sandbox.NotFound)
	wantClass(t, operator.RevokeKey(t.Context(), "../x"), sandbox.NotFound)
	wantPages(t, operator, "key.create ok", "sandbox.create ok", "audit denied", "key.revoke not_found")
}

// wantPages wants calls on the audit trail, of which it reads two at a time.
func wantPages(t *testing.T, c *rest.Client, calls ...string) {
	t.Helper()
	seen := map[string]bool{}
	missing := func(call string) bool { return !seen[call] }
	if !eventually(func() bool { // the last is written when its answer has gone
		for after := ""; ; {
			page, err := c.Audit(t.Context(), after, 2)
			if err != nil || len(page.Entries) > 2 {
				t.Fatalf("%+v, %v", page, err)
			}
			for _, entry := range page.Entries {
				seen[entry.What+" "+entry.Result] = true
			}
			if after = page.Next; after == "" {
				return !slices.ContainsFunc(calls, missing)
			}
		}
	}) {
		t.Errorf("not all of %v is on the trail: %v", calls, seen)
	}
}

func refusalOf[T any](_ T, err error) error { return err }
