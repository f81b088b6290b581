package access

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"aether/sandbox"
)

// whole is a configuration that has every field.
const whole = `{
  "host": {"memory_reserve_bytes": 1073741824, "memory_claim_bytes": 0, "unused_disk_bytes": 1073741824},
  "default": {"quota": {"sandboxes": 10, "creates_per_minute": 30}},
  "tenants": {
    "acme": {
      "policy": {
        "isolation": "kernel",
        "images": ["/srv/images/python"], "registries": ["ghcr.io", "localhost:5000"],
        "mounts": [{"source": "/srv/data", "writable": true}],
        "host_network": true, "nat_network": true, "egress": ["10.0.0.0/8", "db.internal"],
        "unbounded_memory": true, "unbounded_disk": true,
        "default_limits": {"memory_bytes": 268435456, "cpus": 0.5, "processes": 64, "disk_bytes": 1048576, "disk_backed": true,
          "disk_read_bytes_per_second": 1048576, "disk_write_bytes_per_second": 1048576},
        "max_limits": {"cpus": 4}
      },
      "quota": {"sandboxes": 1000, "memory_bytes": 68719476736, "cpus": 32.5, "disk_bytes": 0, "snapshots": 20, "secrets": 500, "creates_per_minute": 600},
      "logins": {"ghcr.io": {"username": "acme", "password": "secret"}, "localhost:5000": {"username": "acme", "password_file": "/PASSWORDS"}}
    }
  }
}`

func TestConfigIsRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "aether.json")
	text := []byte(strings.Replace(whole, "/PASSWORDS", name+".password", 1))
	if err := errors.Join(os.WriteFile(name, text, 0o600), os.WriteFile(name+".password", []byte("from a file\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	got, err := ReadConfig(name)
	if err != nil {
		t.Fatal(err)
	}
	if login := got.Registries("acme").Logins["localhost:5000"]; login != (sandbox.Login{Username: "acme", Password: "from a file"}) {
		t.Errorf("%+v", login)
	}
	filled := got.Tenants["acme"].Logins["localhost:5000"]
	filled.Password = ""
	got.Tenants["acme"].Logins["localhost:5000"] = filled
	var want Config
	if err := json.Unmarshal(text, &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v, %v", got, want, err)
	}
	if err := os.Remove(name + ".password"); err != nil {
		t.Fatal(err)
	}
	_, err = ReadConfig(name)
	checkClass(t, "no password", err, sandbox.Invalid)
	_, err = ReadConfig(name + ".not")
	checkClass(t, "none", err, sandbox.NotFound)
	if err := os.WriteFile(name, make([]byte, maxConfig+1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = ReadConfig(name)
	checkClass(t, "too large", err, sandbox.Invalid)
}

// TestConfigHasEveryField keeps the example above, from which others are tried, whole,
// and holds what the decoder takes for granted of the types.
func TestConfigHasEveryField(t *testing.T) {
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		if of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			walk(of.Elem())
			return
		}
		if of.Kind() != reflect.Struct || reflect.PointerTo(of).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return
		}
		for i, name := range fieldNames(of) {
			field := of.Field(i)
			if name == "" || !field.IsExported() || field.Anonymous {
				t.Errorf("%s.%s has no name in JSON", of, field.Name)
			}
			if !strings.Contains(whole, `"`+name+`":`) {
				t.Errorf("%s.%s is not in the example", of, field.Name)
			}
			walk(field.Type)
		}
	}
	walk(reflect.TypeFor[Config]())
}

func TestBadConfig(t *testing.T) {
	tenant := func(format string, args ...any) string {
		return fmt.Sprintf(`{"tenants": {"acme": %s}}`, fmt.Sprintf(format, args...))
	}
	for _, c := range []struct{ text, field string }{
		{``, ""},
		{`{`, ""},
		{`{} {}`, ""},
		{`[]`, ""},
		{`null`, ""},
		{`{"tenant": {}}`, "tenant"},
		{`{"Tenants": {}}`, "Tenants"},
		{`{"tenants": []}`, "tenants"},
		{`{"tenants": null}`, "tenants"},
		{`{"tenants": {"Acme": {}}}`, "tenants.Acme"},
		{`{"tenants": {"": {}}}`, "tenants."},
		{`{"tenants": {"acme": {}, "acme": {}}}`, "tenants.acme"},
		{`{"default": {"policy": {}, "policy": {}}}`, "default.policy"},
		{`{"host": {"memory_reserve_bytes": -1}}`, "host.memory_reserve_bytes"},
		{tenant(`{"quota": {"memory_byte": 1}}`), "tenants.acme.quota.memory_byte"},
		{tenant(`{"quota": {"sandboxes": "1"}}`), "tenants.acme.quota.sandboxes"},
		{tenant(`{"quota": {"sandboxes": 1.5}}`), "tenants.acme.quota.sandboxes"},
		{tenant(`{"quota": {"sandboxes": -1}}`), "tenants.acme.quota.sandboxes"},
		{tenant(`{"quota": {"sandboxes": null}}`), "tenants.acme.quota.sandboxes"},
		{tenant(`{"quota": {"cpus": 1e300}}`), "tenants.acme.quota.cpus"},
		{tenant(`{"quota": {"creates_per_minute": -0.1}}`), "tenants.acme.quota.creates_per_minute"},
		{tenant(`{"policy": {"isolation": "strong"}}`), "tenants.acme.policy.isolation"},
		{tenant(`{"policy": {"isolation": 3}}`), "tenants.acme.policy.isolation"},
		{tenant(`{"policy": {"host_network": 1}}`), "tenants.acme.policy.host_network"},
		{tenant(`{"policy": {"mounts": [{"source": "/a"}, {"source": "b"}]}}`), "tenants.acme.policy.mounts[1].source"},
		{tenant(`{"policy": {"mounts": [{"source": "/"}]}}`), "tenants.acme.policy.mounts[0].source"},
		{tenant(`{"policy": {"mounts": [{"source": "/a/../b"}]}}`), "tenants.acme.policy.mounts[0].source"},
		{tenant(`{"policy": {"mounts": [{"sauce": "/a"}]}}`), "tenants.acme.policy.mounts[0].sauce"},
		{tenant(`{"policy": {"mounts": {}}}`), "tenants.acme.policy.mounts"},
		{tenant(`{"policy": {"images": ["python"]}}`), "tenants.acme.policy.images[0]"},
		{tenant(`{"logins": {"ghcr.io/x": {"username": "a", "password": "b"}}}`), "tenants.acme.logins.ghcr.io/x"},
		{tenant(`{"logins": {"ghcr.io": {"password": "b"}}}`), "tenants.acme.logins.ghcr.io.username"},
		{tenant(`{"logins": {"ghcr.io": {"username": "a"}}}`), "tenants.acme.logins.ghcr.io.password"},
		{tenant(`{"logins": {"ghcr.io": {"username": "a", "password_file": "b"}}}`), "tenants.acme.logins.ghcr.io.password_file"},
		{tenant(`{"policy": {"images": [1]}}`), "tenants.acme.policy.images[0]"},
		{tenant(`{"policy": {"max_limits": {"memory_bytes": 1}}}`), "tenants.acme.policy.max_limits.memory"},
		{tenant(`{"policy": {"default_limits": {"cpus": -1}}}`), "tenants.acme.policy.default_limits.cpus"},
	} {
		_, err := ParseConfig([]byte(c.text))
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Class != sandbox.Invalid || e.Field != c.field {
			t.Errorf("%s: %v, want %q", c.text, err, c.field)
		}
	}
	_, err := ParseConfig([]byte("{\n\"a\": 1,\n]"))
	if err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("%v does not say where", err)
	}
}

// TestPageShowsAConfig that is one.
func TestPageShowsAConfig(t *testing.T) {
	page, err := os.ReadFile("../../docs/tenants.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	text, _, found := strings.Cut(rest, "```")
	if c, err := ParseConfig([]byte(text)); !found || err != nil || len(c.Tenants) == 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestPermit: a tenant has the policy of its entry or the default's, operators have
// none, and what a quota counts must be stated.
func TestPermit(t *testing.T) {
	c, err := ParseConfig([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	acme, other, operator := Caller{Tenant: "acme"}, Caller{Tenant: "other"}, Caller{Tenant: "other", Operator: true}
	mounts := sandbox.Spec{Mounts: []sandbox.Mount{{Source: "/srv/data", Target: "/data"}}}
	if got, err := c.Permit(acme, mounts); err != nil || got.Isolation != sandbox.KernelBoundary || got.Limits.CPUs != 0.5 {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = c.Permit(other, mounts)
	checkClass(t, "another tenant's mount", err, sandbox.Denied)
	if got, err := c.Permit(operator, mounts); err != nil || !reflect.DeepEqual(got, mounts) {
		t.Errorf("%+v, %v", got, err)
	}
	if *c.Quota(acme).Sandboxes != 1000 || *c.Quota(other).Sandboxes != 10 || c.Quota(operator).Sandboxes != nil {
		t.Errorf("%+v, %+v, %+v", c.Quota(acme), c.Quota(other), c.Quota(operator))
	}
	counted := Config{Default: Tenant{Quota: Quota{CPUs: new(4.0)}}}
	_, err = counted.Permit(other, sandbox.Spec{})
	checkClass(t, "processors that are not stated", err, sandbox.Denied)
	if _, err = counted.Permit(other, sandbox.Spec{Limits: sandbox.Limits{CPUs: 1}}); err != nil {
		t.Error(err)
	}
	if got, err := (Config{}).Permit(other, sandbox.Spec{}); err != nil || got.Limits.MemoryBytes != defaultMemory {
		t.Errorf("without a configuration: %+v, %v", got, err)
	}
}

// FuzzConfig: what is taken is what encoding/json takes, reads back as itself, and
// every refusal is Invalid.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{whole, `{}`, `{"tenants":{"a":{}}}`, `{"tenants":{"a":{"policy":{"mounts":[{"source":"/a"}]}}}}`, `{"host":`, `[[[[`, `{"\u0000":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseConfig(text)
		if err != nil {
			if sandbox.ClassOf(err) != sandbox.Invalid {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		var lax Config
		if err := json.Unmarshal(text, &lax); err != nil || !reflect.DeepEqual(got, lax) {
			t.Errorf("%q: %+v, by encoding/json %+v, %v", text, got, lax, err)
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseConfig(again); err != nil {
			t.Errorf("%s, from %q: %v", again, text, err)
		}
	})
}
