package access

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"aether/sandbox"
)

// leaf is a field of a Spec that has no fields of its own.
type leaf struct {
	path string
	set  func(*sandbox.Spec) // to something
}

// leaves walks all fields of a Spec, in any depth.
func leaves(t *testing.T) (list []leaf) {
	t.Helper()
	var walk func(path string, of reflect.Type, in func(*sandbox.Spec) reflect.Value)
	walk = func(path string, of reflect.Type, in func(*sandbox.Spec) reflect.Value) {
		switch {
		case of.Kind() == reflect.Struct:
			for i := range of.NumField() {
				name := strings.TrimPrefix(path+"."+of.Field(i).Name, ".")
				walk(name, of.Field(i).Type, func(s *sandbox.Spec) reflect.Value { return in(s).Field(i) })
			}
		case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct:
			walk(path, of.Elem(), func(s *sandbox.Spec) reflect.Value {
				in(s).Set(reflect.MakeSlice(of, 1, 1))
				return in(s).Index(0)
			})
		default:
			list = append(list, leaf{path, func(s *sandbox.Spec) { in(s).Set(something(t, path, of)) }})
		}
	}
	walk("", reflect.TypeFor[sandbox.Spec](), func(s *sandbox.Spec) reflect.Value { return reflect.ValueOf(s).Elem() })
	return list
}

// something is a value of a type that is not zero.
func something(t *testing.T, path string, of reflect.Type) reflect.Value {
	t.Helper()
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.String:
		v.SetString("/etc")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Slice:
		v.Set(reflect.Append(v, something(t, path, of.Elem())))
	case reflect.Map:
		v.Set(reflect.MakeMap(of))
		v.SetMapIndex(something(t, path, of.Key()), something(t, path, of.Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
	default:
		t.Fatalf("%s is a %s, of which this test knows no value", path, of)
	}
	return v
}

// harmless are the fields that a tenant may set to anything, by a decision that was
// made for each. What is not here must be refused where it says something of the host.
var harmless = []string{"Isolation", "Command.Env", "Command.WorkDir", "Command.User", "Limits.MemoryBytes", "Limits.CPUs", "Limits.Processes",
	"Limits.DiskBytes", "Limits.DiskBacked", "Limits.DiskReadRate", "Limits.DiskWriteRate", "Network.Deny",
	"Network.Connections", "Network.Rate", "Network.HTTP.Host", "Network.HTTP.Methods", "Network.HTTP.Paths", "Network.HTTP.Headers", "Timeouts.Lifetime", "Metadata"}

// TestATenantNamesNothingOfTheHost sets every field of a Spec, alone: those that are
// not known to be harmless are refused, and so is each that no rule is about.
func TestATenantNamesNothingOfTheHost(t *testing.T) {
	all := leaves(t)
	if len(all) < 20 {
		t.Fatalf("%d fields only", len(all))
	}
	for _, field := range all {
		var spec sandbox.Spec
		field.set(&spec)
		spec = Policy{}.Complete(spec)
		err := Allow(Policy{}, spec)
		if slices.Contains(harmless, field.path) {
			if err != nil {
				t.Errorf("%s: %v", field.path, err)
			}
		} else {
			checkClass(t, field.path, err, sandbox.Denied)
		}
		checkWithoutRule(t, field.path, spec)
	}
	for path := range rules {
		if !slices.ContainsFunc(all, func(l leaf) bool { return l.path == path }) {
			t.Errorf("a rule is about %s, which no Spec has", path)
		}
	}
}

// checkWithoutRule has a field be new: one that nobody has decided on.
func checkWithoutRule(t *testing.T, path string, spec sandbox.Spec) {
	t.Helper()
	rule := rules[path]
	delete(rules, path)
	defer func() { rules[path] = rule }()
	err := Allow(Policy{}, spec)
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.Denied || e.Field != path {
		t.Errorf("%s, without a rule: %v", path, err)
	}
}

// TestNewFieldsAreFound: wherever one is added.
func TestNewFieldsAreFound(t *testing.T) {
	type inner struct{ Old, New string }
	grown := struct {
		hidden int
		Deep   struct{ Deeper inner }
		List   []inner
		Any    any
		To     *inner
	}{1, struct{ Deeper inner }{inner{New: "x"}}, []inner{{Old: "x"}, {New: "x"}}, "x", &inner{}}
	got := setFields("", reflect.ValueOf(grown))
	if want := []string{"hidden", "Deep.Deeper.New", "List.Old", "List.New", "Any", "To"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestAllow is what policies allow and refuse, value by value.
func TestAllow(t *testing.T) {
	mount := func(source string, writable bool) sandbox.Spec {
		return sandbox.Spec{Mounts: []sandbox.Mount{{Source: source, Target: "/data", Writable: writable}}}
	}
	image := func(ref string) sandbox.Spec { return sandbox.Spec{Image: ref} }
	limits := func(l sandbox.Limits) sandbox.Spec { return sandbox.Spec{Limits: l} }
	digest := "@sha256:" + strings.Repeat("0", 64)
	reads := Policy{Mounts: []AllowedMount{{Source: "/srv/data"}}}
	writes := Policy{Mounts: []AllowedMount{{Source: "/srv/data", Writable: true}}}
	images := Policy{Images: []string{"/srv/images/python"}, Registries: []string{"localhost:5000"}}
	strong := Policy{Isolation: sandbox.KernelBoundary}
	small := Policy{MaxLimits: sandbox.Limits{MemoryBytes: 64 << 20, CPUs: 2}}
	for _, c := range []struct {
		name   string
		policy Policy
		spec   sandbox.Spec
		field  string // of the refusal, or empty
	}{
		{"nothing", Policy{}, sandbox.Spec{}, ""},
		{"an id", Policy{}, sandbox.Spec{ID: "mine"}, "id"},

		{"mount", Policy{}, mount("/srv/data", false), "mounts"},
		{"mount, listed", reads, mount("/srv/data", false), ""},
		{"mount, listed for reading", reads, mount("/srv/data", true), "mounts"},
		{"mount, listed for writing", writes, mount("/srv/data", true), ""},
		{"mount, below", writes, mount("/srv/data/link", false), "mounts"},
		{"mount, above", writes, mount("/srv", false), "mounts"},
		{"mount, spelled", writes, mount("/srv/link/../data", false), "mounts"},
		{"mount, second", writes, sandbox.Spec{Mounts: []sandbox.Mount{{Source: "/srv/data", Target: "/a"}, {Source: "/etc", Target: "/b"}}}, "mounts"},

		{"host image", Policy{}, image("host"), ""},
		{"directory", Policy{}, image("/srv/images/python"), "image"},
		{"directory, listed", images, image("/srv/images/python"), ""},
		{"directory, below", images, image("/srv/images/python/x"), "image"},
		{"relative", Policy{}, image("./x"), "image"},
		{"this one", Policy{}, image("."), "image"},
		{"home", Policy{}, image("~/x"), "image"},
		{"file", Policy{}, image("file:///etc"), "image"},
		{"layout", Policy{}, image("oci:/srv/x"), "image"},
		{"dots within", Policy{}, image("a/../../etc"), "image"},
		{"hub", Policy{}, image("python:3.12-slim"), ""},
		{"hub, folder", Policy{}, image("library/python"), ""},
		{"registry", Policy{}, image("ghcr.io/acme/x:v1" + digest), ""},
		{"registry, port", Policy{}, image("ghcr.io:8443/acme/x"), "image"},
		{"registry, listed", images, image("localhost:5000/x"), ""},
		{"registry, not listed", images, image("ghcr.io/acme/x"), "image"},
		{"hub, not listed", images, image("python"), "image"},
		{"localhost", Policy{}, image("localhost/x"), "image"},
		{"localhost with a dot", Policy{}, image("localhost./x"), "image"},
		{"loopback", Policy{}, image("127.0.0.1:5000/x"), "image"},
		{"metadata service", Policy{}, image("169.254.169.254/latest"), "image"},
		{"short address", Policy{}, image("127.1/x"), "image"},
		{"hexadecimal address", Policy{}, image("0x7f.0x1/x"), "image"},
		{"neighbour", Policy{}, image("db:80/x"), "image"},
		{"internal name", Policy{}, image("metadata.google.internal/x"), "image"},

		{"host network", Policy{}, sandbox.Spec{Network: sandbox.Network{Mode: sandbox.HostNetwork}}, "network.mode"},
		{"host network, listed", Policy{HostNetwork: true}, sandbox.Spec{Network: sandbox.Network{Mode: sandbox.HostNetwork}}, ""},
		{"nat", Policy{HostNetwork: true}, sandbox.Spec{Network: sandbox.Network{Mode: sandbox.NatNetwork}}, "network.mode"},
		{"nat, listed", Policy{NatNetwork: true}, sandbox.Spec{Network: sandbox.Network{Mode: sandbox.NatNetwork, Allow: []string{"a.example"}}}, ""},
		{"nat, listed, to a private network", Policy{NatNetwork: true}, sandbox.Spec{Network: sandbox.Network{Mode: sandbox.NatNetwork, Allow: []string{"10.0.0.0/8"}}}, "network.allow"},
		{"a mode of the future", Policy{HostNetwork: true}, sandbox.Spec{Network: sandbox.Network{Mode: "bridge"}}, "network.mode"},

		{"weaker", strong, sandbox.Spec{Isolation: sandbox.ProcessBoundary}, "isolation"},
		{"as strong", strong, sandbox.Spec{Isolation: sandbox.KernelBoundary}, ""},
		{"stronger", strong, sandbox.Spec{Isolation: sandbox.HardwareBoundary}, ""},
		{"none stated", strong, sandbox.Spec{}, ""},

		{"most memory", small, limits(sandbox.Limits{MemoryBytes: 64 << 20}), ""},
		{"more memory", small, limits(sandbox.Limits{MemoryBytes: 64<<20 + 1}), "limits.memory"},
		{"more processors", small, limits(sandbox.Limits{CPUs: 2.01}), "limits.cpus"},
	} {
		err := Allow(c.policy, c.policy.Complete(c.spec))
		var e *sandbox.Error
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.field != "" && (!errors.As(err, &e) || e.Class != sandbox.Denied || e.Field != c.field):
			t.Errorf("%s: %v, want a refusal of %s", c.name, err, c.field)
		}
	}
}

func TestEgress(t *testing.T) {
	for entry, public := range map[string]bool{
		"example.com": true, "*.example.com": true, "8.8.8.8": true, "8.8.0.0/16": true, "2606:4700::/32": true, "2606:4700::1": true,
		"localhost": false, "db": false, "*": false, "*.": false, "db.internal": false, "": false, "example.com:80": true, "example.com:53/udp": true, "db:80": false, "packages": false, "public": true,
		"127.0.0.1": false, "10.1.2.3": false, "8.0.0.0/5": false, "0.0.0.0/0": false, "169.254.169.254": false, "192.168.0.0/24": false,
		"::1": false, "::/0": false, "fe80::1": false, "fd00::/8": false, "::ffff:127.0.0.1": false, "::ffff:8.8.8.8": true, "64:ff9b::7f00:1": false,
		"2002:7f00:1::": false, "2000::/2": false, "2606:4700::1%eth0": false, "0177.0.0.1": false, "2130706433": false,
	} {
		spec := Policy{}.Complete(sandbox.Spec{Network: sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{"example.org", entry}}})
		if err := Allow(Policy{}, spec); (err == nil) != public {
			t.Errorf("%q: %v", entry, err)
		}
		if err := Allow(Policy{Egress: []string{entry}}, spec); err != nil {
			t.Errorf("%q, listed: %v", entry, err)
		}
	}
}

func TestTenantsProxy(t *testing.T) {
	for text, public := range map[string]bool{
		"": true, "socks5://proxy.example.com:1080": true, "http://8.8.8.8:3128": true, "http://${UP}@proxy.example.com:1": true, "http://[2606:4700::1]:1": true,
		"http://127.0.0.1:3128": false, "socks5://10.0.0.1:1080": false, "http://localhost:1": false, "http://proxy:1": false, "http://proxy.internal:1": false, "http://169.254.169.254:80": false,
		"http://[::1]:1": false, "http://[::ffff:127.0.0.1]:1": false, "http://user:word@8.8.8.8:1": false, "nonsense": false,
	} {
		spec := Policy{}.Complete(sandbox.Spec{Network: sandbox.Network{Mode: sandbox.EgressNetwork, Proxy: text}})
		if err := Allow(Policy{}, spec); (err == nil) != public {
			t.Errorf("%q: %v", text, err)
		}
		if err := Allow(Policy{Egress: []string{text}}, spec); err != nil {
			t.Errorf("%q, listed: %v", text, err)
		}
	}
}

func TestComplete(t *testing.T) {
	got := Policy{}.Complete(sandbox.Spec{})
	if want := (sandbox.Limits{MemoryBytes: defaultMemory, DiskBytes: defaultDisk}); got.Limits != want {
		t.Errorf("by default: %+v", got.Limits)
	}
	p := Policy{Isolation: sandbox.HardwareBoundary, DefaultLimits: sandbox.Limits{CPUs: 1, MemoryBytes: 2 << 20},
		MaxLimits: sandbox.Limits{CPUs: 0.5, Processes: 9, DiskBytes: 1 << 20}}
	got = p.Complete(sandbox.Spec{})
	if want := (sandbox.Limits{MemoryBytes: 2 << 20, CPUs: 0.5, Processes: 9, DiskBytes: 1 << 20}); got.Limits != want || got.Isolation != sandbox.HardwareBoundary {
		t.Errorf("by policy: %+v", got)
	}
	stated := sandbox.Spec{Isolation: sandbox.ProcessBoundary, Limits: sandbox.Limits{CPUs: 8, MemoryBytes: 1 << 40, Processes: 1, DiskBytes: 1 << 40, DiskReadRate: 1, DiskWriteRate: 2}}
	if got = p.Complete(stated); !reflect.DeepEqual(got, stated) {
		t.Errorf("what was stated is now %+v", got)
	}
	open := Policy{UnboundedMemory: true, UnboundedDisk: true}
	if got = open.Complete(sandbox.Spec{}); got.Limits != (sandbox.Limits{}) || Allow(open, got) != nil {
		t.Errorf("unbounded: %+v, %v", got.Limits, Allow(open, got))
	}
	checkClass(t, "unbounded", Allow(Policy{}, sandbox.Spec{}), sandbox.Denied)
	checkClass(t, "without a limit that has a maximum", Allow(Policy{UnboundedMemory: true, UnboundedDisk: true, MaxLimits: sandbox.Limits{CPUs: 1}}, sandbox.Spec{}), sandbox.Denied)
}
