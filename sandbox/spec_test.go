package sandbox

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestZeroSpecIsValid(t *testing.T) {
	if err := (Spec{}).Validate(); err != nil {
		t.Error(err)
	}
}

// fullSpec sets every field, each to something valid.
func fullSpec() Spec {
	return Spec{
		ID: "a-1", Image: HostImage, Isolation: HardwareBoundary,
		Command: CommandDefaults{Env: map[string]string{"PATH": "/bin", "EMPTY": ""}, WorkDir: "/srv", User: "agent"},
		Limits:  Limits{MemoryBytes: MinMemory, CPUs: 1.5, Processes: 1, DiskBytes: MinDisk, DiskBacked: true, DiskReadRate: MinDiskRate, DiskWriteRate: MinDiskRate},
		Network: Network{Mode: EgressNetwork, Allow: []string{"example.org", "192.0.2.0/24"}, Deny: []string{"*.example.org:25"}, Connections: 10, Rate: 1 << 20,
			HTTP:  []HTTPRule{{Host: "*.example.org:443", Methods: []string{"GET"}, Paths: []string{"/v1/*"}, Headers: map[string]string{"X-Key": "${KEY}"}}},
			Proxy: "socks5://${PROXY}@proxy.example.org:1080"},
		Mounts:   []Mount{{Source: "/src", Target: "/dst", Writable: true}},
		Timeouts: Timeouts{Lifetime: time.Second},
		Metadata: map[string]string{"owner": "me", "empty": ""},
	}
}

// TestFullSpecIsFull keeps fullSpec honest: a field added to Spec must be
// added there, and so to the round trip through JSON.
func TestFullSpecIsFull(t *testing.T) {
	checkSet(t, "Spec", reflect.ValueOf(fullSpec()))
}

func checkSet(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	if v.IsZero() {
		t.Errorf("%s is not set", name)
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		checkSet(t, name+"."+v.Type().Field(i).Name, v.Field(i))
	}
}

func TestSpecJSON(t *testing.T) {
	for _, spec := range []Spec{{}, fullSpec()} {
		text, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		var back Spec
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, spec) {
			t.Errorf("%s reads back as %+v, %v", text, back, err)
		}
	}
	if text, err := json.Marshal(Spec{}); err != nil || string(text) != "{}" {
		t.Errorf("the zero Spec is %s, %v", text, err)
	}
}

// A change is made to fullSpec; field is what Validate must name, or empty if
// the Spec stays valid.
type change struct {
	name  string
	apply func(*Spec)
	field string
}

func TestSpecValidate(t *testing.T) {
	for subject, changes := range map[string][]change{
		"identity": identityChanges, "command": commandChanges, "limits": limitChanges, "network": networkChanges,
		"mounts": mountChanges, "rest": otherChanges,
	} {
		for _, c := range changes {
			t.Run(subject+"/"+c.name, func(t *testing.T) {
				spec := fullSpec()
				c.apply(&spec)
				err := spec.Validate()
				switch {
				case c.field != "":
					checkInvalid(t, err, c.field)
				case err != nil:
					t.Errorf("refused: %v", err)
				}
			})
		}
	}
}

var identityChanges = []change{
	{"nothing", func(*Spec) {}, ""},
	{"no id", func(s *Spec) { s.ID = "" }, ""},
	{"shortest id", func(s *Spec) { s.ID = "7" }, ""},
	{"longest id", func(s *Spec) { s.ID = strings.Repeat("a", 64) }, ""},
	{"id too long", func(s *Spec) { s.ID = strings.Repeat("a", 65) }, "id"},
	{"id with capitals", func(s *Spec) { s.ID = "Aa" }, "id"},
	{"id that looks like a flag", func(s *Spec) { s.ID = "-a" }, "id"},
	{"id with a path", func(s *Spec) { s.ID = "a/../b" }, "id"},
	{"id with a dot", func(s *Spec) { s.ID = "a.b" }, "id"},
	{"id with a line break at the end", func(s *Spec) { s.ID = "a\n" }, "id"},
	{"id in another script", func(s *Spec) { s.ID = "é" }, "id"},
	{"no image", func(s *Spec) { s.Image = "" }, ""},
	{"longest image", func(s *Spec) { s.Image = strings.Repeat("a", maxFieldSize) }, ""},
	{"image too long", func(s *Spec) { s.Image = strings.Repeat("a", maxFieldSize+1) }, "image"},
	{"image with a zero byte", func(s *Spec) { s.Image = "host\x00" }, "image"},
	{"any isolation", func(s *Spec) { s.Isolation = AnyBoundary }, ""},
	{"isolation below", func(s *Spec) { s.Isolation = AnyBoundary - 1 }, "isolation"},
	{"isolation above", func(s *Spec) { s.Isolation = HardwareBoundary + 1 }, "isolation"},
}

var commandChanges = []change{
	{"no environment", func(s *Spec) { s.Command.Env = nil }, ""},
	{"most variables", func(s *Spec) { s.Command.Env = entries(maxEnv) }, ""},
	{"too many variables", func(s *Spec) { s.Command.Env = entries(maxEnv + 1) }, "command.env"},
	{"variable without a name", func(s *Spec) { s.Command.Env[""] = "x" }, "env"},
	{"no working directory", func(s *Spec) { s.Command.WorkDir = "" }, ""},
	{"relative working directory", func(s *Spec) { s.Command.WorkDir = "work" }, "command.workdir"},
	{"longest working directory", func(s *Spec) { s.Command.WorkDir = longPath(maxFieldSize) }, ""},
	{"working directory too long", func(s *Spec) { s.Command.WorkDir = longPath(maxFieldSize + 1) }, "command.workdir"},
	{"working directory with a zero byte", func(s *Spec) { s.Command.WorkDir = "/\x00" }, "command.workdir"},
	{"no user", func(s *Spec) { s.Command.User = "" }, ""},
	{"user too long", func(s *Spec) { s.Command.User = strings.Repeat("a", maxFieldSize+1) }, "command.user"},
	{"user with a zero byte", func(s *Spec) { s.Command.User = "a\x00" }, "command.user"},
}

var limitChanges = []change{
	{"none", func(s *Spec) { s.Limits = Limits{} }, ""},
	{"most memory", func(s *Spec) { s.Limits.MemoryBytes = math.MaxInt64 }, ""},
	{"too little memory", func(s *Spec) { s.Limits.MemoryBytes = MinMemory - 1 }, "limits.memory"},
	{"negative memory", func(s *Spec) { s.Limits.MemoryBytes = -1 }, "limits.memory"},
	{"least CPU", func(s *Spec) { s.Limits.CPUs = 0.01 }, ""},
	{"most CPUs", func(s *Spec) { s.Limits.CPUs = 4096 }, ""},
	{"too little CPU", func(s *Spec) { s.Limits.CPUs = math.Nextafter(0.01, 0) }, "limits.cpus"},
	{"too many CPUs", func(s *Spec) { s.Limits.CPUs = math.Nextafter(4096, 5000) }, "limits.cpus"},
	{"negative CPUs", func(s *Spec) { s.Limits.CPUs = -1 }, "limits.cpus"},
	{"CPUs that are no number", func(s *Spec) { s.Limits.CPUs = math.NaN() }, "limits.cpus"},
	{"infinite CPUs", func(s *Spec) { s.Limits.CPUs = math.Inf(1) }, "limits.cpus"},
	{"most processes", func(s *Spec) { s.Limits.Processes = 4 << 20 }, ""},
	{"too many processes", func(s *Spec) { s.Limits.Processes = 4<<20 + 1 }, "limits.processes"},
	{"negative processes", func(s *Spec) { s.Limits.Processes = -1 }, "limits.processes"},
	{"too little disk", func(s *Spec) { s.Limits.DiskBytes = MinDisk - 1 }, "limits.disk"},
	{"negative disk", func(s *Spec) { s.Limits.DiskBytes = -1 }, "limits.disk"},
	{"fastest reads", func(s *Spec) { s.Limits.DiskReadRate = math.MaxInt64 }, ""},
	{"reads too slow", func(s *Spec) { s.Limits.DiskReadRate = MinDiskRate - 1 }, "limits.disk_read_rate"},
	{"negative reads", func(s *Spec) { s.Limits.DiskReadRate = -1 }, "limits.disk_read_rate"},
	{"writes too slow", func(s *Spec) { s.Limits.DiskWriteRate = MinDiskRate - 1 }, "limits.disk_write_rate"},
	{"negative writes", func(s *Spec) { s.Limits.DiskWriteRate = -1 }, "limits.disk_write_rate"},
}

var networkChanges = []change{
	{"none", func(s *Spec) { s.Network = Network{} }, ""},
	{"host", func(s *Spec) { s.Network = Network{Mode: HostNetwork} }, ""},
	{"egress to nowhere", func(s *Spec) { s.Network.Allow = nil }, ""},
	{"nat", func(s *Spec) {
		s.Network = Network{Mode: NatNetwork, Allow: []string{"*.example.org:443", "10.0.0.0/8", "public"}, Deny: []string{"2001:db8::1"}, Connections: 3, Rate: MinRate}
	}, ""},
	{"rules about requests with nat", func(s *Spec) { s.Network.Mode, s.Network.Proxy = NatNetwork, "" }, "network.http"},
	{"a proxy with nat", func(s *Spec) { s.Network = Network{Mode: NatNetwork, Proxy: "http://1.2.3.4:1"} }, "network.proxy"},
	{"version 6 with nat", func(s *Spec) { s.Network = Network{Mode: NatNetwork, Allow: []string{"2001:db8::1"}} }, "network.allow"},
	{"unknown", func(s *Spec) { s.Network.Mode = "bridge" }, "network.mode"},
	{"capitals", func(s *Spec) { s.Network.Mode = "Host" }, "network.mode"},
	{"list without a network", func(s *Spec) { s.Network.Mode = NoNetwork }, "network.allow"},
	{"list on the host's network", func(s *Spec) { s.Network.Mode = HostNetwork }, "network.allow"},
	{"denial without a network", func(s *Spec) { s.Network = Network{Deny: []string{"example.org"}} }, "network.deny"},
	{"no entry", func(s *Spec) { s.Network.Allow = []string{"a b"} }, "network.allow"},
	{"no denied entry", func(s *Spec) { s.Network.Deny = []string{"example.org:0"} }, "network.deny"},
	{"everything denied", func(s *Spec) { s.Network.Deny = []string{"public"} }, "network.deny"},
	{"most entries", func(s *Spec) { s.Network.Allow = slices.Repeat([]string{"example.org"}, maxEntries) }, ""},
	{"too many entries", func(s *Spec) { s.Network.Allow = slices.Repeat([]string{"example.org"}, maxEntries+1) }, "network.allow"},
	{"negative connections", func(s *Spec) { s.Network.Connections = -1 }, "network.connections"},
	{"too slow", func(s *Spec) { s.Network.Rate = MinRate - 1 }, "network.bytes_per_second"},
	{"rules without a network", func(s *Spec) { s.Network = Network{HTTP: s.Network.HTTP} }, "network.http"},
	{"proxy without a network", func(s *Spec) { s.Network = Network{Proxy: "http://1.2.3.4:1"} }, "network.proxy"},
	{"most rules", func(s *Spec) { s.Network.HTTP = slices.Repeat(s.Network.HTTP, maxRules) }, ""},
	{"too many rules", func(s *Spec) { s.Network.HTTP = slices.Repeat(s.Network.HTTP, maxRules+1) }, "network.http"},
}

var mountChanges = []change{
	{"none", func(s *Spec) { s.Mounts = nil }, ""},
	{"most", func(s *Spec) { s.Mounts = mounts(maxMounts) }, ""},
	{"too many", func(s *Spec) { s.Mounts = mounts(maxMounts + 1) }, "mounts"},
	{"no source", func(s *Spec) { s.Mounts[0].Source = "" }, "mounts"},
	{"no target", func(s *Spec) { s.Mounts[0].Target = "" }, "mounts"},
	{"relative source", func(s *Spec) { s.Mounts[0].Source = "src" }, "mounts"},
	{"relative target", func(s *Spec) { s.Mounts[0].Target = "./dst" }, "mounts"},
	{"longest source", func(s *Spec) { s.Mounts[0].Source = longPath(maxFieldSize) }, ""},
	{"source too long", func(s *Spec) { s.Mounts[0].Source = longPath(maxFieldSize + 1) }, "mounts"},
	{"zero byte", func(s *Spec) { s.Mounts[0].Target = "/a\x00b" }, "mounts"},
	{"source /", func(s *Spec) { s.Mounts[0].Source = "/" }, ""},
	{"target /", func(s *Spec) { s.Mounts[0].Target = "/" }, "mounts"},
	{"target / in disguise", func(s *Spec) { s.Mounts[0].Target = "/a/..//." }, "mounts"},
	{"the last of several", func(s *Spec) { s.Mounts = append(mounts(3), Mount{Source: "/a"}) }, "mounts"},
}

var otherChanges = []change{
	{"no lifetime", func(s *Spec) { s.Timeouts = Timeouts{} }, ""},
	{"negative lifetime", func(s *Spec) { s.Timeouts.Lifetime = -1 }, "timeouts.lifetime"},
	{"no metadata", func(s *Spec) { s.Metadata = nil }, ""},
	{"most metadata", func(s *Spec) { s.Metadata = entries(maxMetadata) }, ""},
	{"too much metadata", func(s *Spec) { s.Metadata = entries(maxMetadata + 1) }, "metadata"},
	{"metadata without a key", func(s *Spec) { s.Metadata[""] = "x" }, "metadata"},
	{"longest metadata", func(s *Spec) { s.Metadata["k"] = strings.Repeat("v", maxFieldSize-1) }, ""},
	{"metadata too long", func(s *Spec) { s.Metadata["k"] = strings.Repeat("v", maxFieldSize) }, "metadata"},
}

func TestValidEnv(t *testing.T) {
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"A", "", true},
		{"A", "b=c\nd", true},
		{"with space", "x", true}, // strange, and allowed by the kernel
		{"A", strings.Repeat("v", maxFieldSize-1), true},
		{"A", strings.Repeat("v", maxFieldSize), false},
		{strings.Repeat("n", maxFieldSize+1), "", false},
		{"", "x", false},
		{"A=B", "x", false},
		{"A\x00", "x", false},
		{"A", "x\x00", false},
	} {
		err := ValidEnv(c.name, c.value)
		if c.ok && err != nil {
			t.Errorf("%.20q=%.20q is refused: %v", c.name, c.value, err)
		}
		if !c.ok {
			checkInvalid(t, err, "env")
		}
	}
}

func entries(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("K%d", i)] = "v"
	}
	return m
}

func mounts(n int) []Mount {
	list := make([]Mount, n)
	for i := range list {
		list[i] = Mount{Source: "/src", Target: fmt.Sprintf("/dst/%d", i)}
	}
	return list
}

func longPath(n int) string { return "/" + strings.Repeat("p", n-1) }
