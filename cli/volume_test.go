package cli

import (
	"testing"

	"aether/engine"
	"aether/sandbox"
)

func TestParseVolumes(t *testing.T) {
	got, err := parseVolumes("--volume", []string{"data:/data", "data:/ro:ro", "odd:/a:b"})
	want := []engine.VolumeMount{{Name: "data", Target: "/data"}, {Name: "data", Target: "/ro", ReadOnly: true}, {Name: "odd", Target: "/a:b"}}
	if err != nil || len(got) != len(want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
	for _, wrong := range []string{"", "data", ":/x", "data:", "data:x", "data:ro"} {
		if _, err := parseVolumes("--volume", []string{wrong}); sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
