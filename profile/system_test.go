package profile

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"aether/sandbox"
)

func TestParseRoundTrips(t *testing.T) {
	for _, s := range All() {
		for _, name := range append(s.Aliases(), s.Name()) {
			for _, spelled := range []string{name, strings.ToUpper(name)} {
				got, err := Parse(spelled)
				if err != nil || got != s {
					t.Errorf("Parse(%q) = %v, %v, want %v", spelled, got, err, s)
				}
			}
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]System{}
	for _, s := range All() {
		for _, name := range append(s.Aliases(), s.Name()) {
			if other, twice := seen[name]; twice {
				t.Errorf("%s and %s are both called %q", other, s, name)
			}
			if name != strings.ToLower(name) {
				t.Errorf("%s: the name %q is not lower-case", s, name)
			}
			seen[name] = s
		}
	}
}

func TestAliases(t *testing.T) {
	for s, want := range map[System]string{
		AetherVM: "aether hypermachine", Firecracker: "fc", CloudHypervisor: "cloudhv chv", GVisor: "runsc",
		Kata: "kata-containers", QEMU: "qemu kvm", Docker: "runc containers", Cell: "native namespaces",
		Crun: "", Youki: "", Bubblewrap: "bwrap", Nspawn: "nspawn", Incus: "lxc lxd",
		VZ: "virtualization-framework vfkit tart", Lima: "limactl", OrbStack: "orb", UTM: "",
	} {
		if got := strings.Join(s.Aliases(), " "); got != want {
			t.Errorf("%s: aliases %q, want %q", s, got, want)
		}
	}
}

func TestParseUnknown(t *testing.T) {
	for _, name := range []string{"virtualbox", "", " docker", "docker\n", strings.Repeat("x", 1<<16)} {
		_, err := Parse(name)
		checkUnknown(t, err, "system", name, names())
		if len(err.Error()) > 400 {
			t.Errorf("the error for a name of %d bytes has %d", len(name), len(err.Error()))
		}
	}
}

func TestParseAxis(t *testing.T) {
	for _, a := range Axes() {
		for _, name := range []string{a.String(), a.Field(), a.Short(), strings.ToUpper(a.Field())} {
			if got, err := ParseAxis(name); err != nil || got != a {
				t.Errorf("ParseAxis(%q) = %v, %v, want %v", name, got, err, a)
			}
		}
		if a.Question() == "" || a.Best() == "" {
			t.Errorf("%s does not say what it asks", a)
		}
	}
	_, err := ParseAxis("speed")
	checkUnknown(t, err, "axis", "speed", axisNames())
}

func TestParseMeasure(t *testing.T) {
	for _, name := range MeasureNames() {
		m, err := ParseMeasure(strings.ToUpper(name))
		if err != nil || m.String() != name {
			t.Errorf("ParseMeasure(%q) = %v, %v", name, m, err)
		}
	}
	_, err := ParseMeasure("speed")
	checkUnknown(t, err, "axis", "speed", MeasureNames())
}

func TestStringsOfStrangers(t *testing.T) {
	if System(99).String() != "system(99)" || System(-1).String() != "system(-1)" || Axis(7).String() != "axis(7)" {
		t.Error("a value that is none is not told apart")
	}
}

// checkUnknown wants an Invalid error of the field that carries the name and
// says what is known.
func checkUnknown(t *testing.T, err error, field, name string, known []string) {
	t.Helper()
	var e *sandbox.Error
	var u *UnknownError
	if !errors.As(err, &e) || !errors.As(err, &u) {
		t.Fatalf("%q: got %v, want a typed error", name, err)
	}
	if e.Class != sandbox.Invalid || e.Field != field || u.Name != name || !slices.Equal(u.Known, known) {
		t.Errorf("%q: got class %s, field %s, known %v", name, e.Class, e.Field, u.Known)
	}
	for _, k := range known {
		if !strings.Contains(err.Error(), k) {
			t.Errorf("%q: the error does not name %s: %v", name, k, err)
		}
	}
}
