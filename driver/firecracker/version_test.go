package firecracker

import (
	"strings"
	"testing"

	"aether/sandbox"
)

func TestReadVersion(t *testing.T) {
	for said, want := range map[string]string{
		"Firecracker v1.14.2\n\n": "1.14.2",
		"Firecracker v1.8.0\n":    "1.8.0",
		"Firecracker v2.0.0-dev\nSupported snapshot data format versions: v1.0.0\n": "2.0.0",
		"Firecracker v1.7.9\n":                "",
		"Firecracker v0.25.0\n":               "",
		"cloud-hypervisor v48.0\n":            "",
		"Firecracker v99999.1.1\n":            "",
		"usage: true [ignored command line]":  "",
		"\x1b[2J" + strings.Repeat("x", 4096): "",
		"":                                    "",
	} {
		got, err := readVersion(said)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.40q: %q, %v", said, got, err)
		}
		if err != nil && (sandbox.ClassOf(err) != sandbox.Unavailable || len(err.Error()) > 500 || strings.Contains(err.Error(), "\x1b")) {
			t.Errorf("%.40q: class %v: %v", said, sandbox.ClassOf(err), err)
		}
	}
}

// Releases that lose their guests by a pause say so instead.
func TestMayPause(t *testing.T) {
	for version, may := range map[string]bool{"1.8.0": true, "1.15.9": true, "1.16.0": false, "1.16.1": false, "1.16.2": true, "1.17.0": true, "2.0.0": true} {
		err := mayPause(version)
		if (err == nil) != may {
			t.Errorf("%s: %v", version, err)
		}
		if err != nil && sandbox.ClassOf(err) != sandbox.Unavailable {
			t.Errorf("%s: class %v", version, sandbox.ClassOf(err))
		}
	}
}
