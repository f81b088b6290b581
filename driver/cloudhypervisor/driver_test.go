package cloudhypervisor

import (
	"strings"
	"testing"

	"aether/sandbox"
)

func TestReadVersion(t *testing.T) {
	for said, want := range map[string]string{
		"cloud-hypervisor v48.0\n":            "48.0",
		"cloud-hypervisor v45.0.0\n":          "45.0.0",
		"cloud-hypervisor v50.0-dirty\n":      "50.0",
		"cloud-hypervisor v29.9\n":            "",
		"Firecracker v1.14.2\n":               "",
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
