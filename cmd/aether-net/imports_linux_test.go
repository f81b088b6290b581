package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestLinksNoTables: the program that reads what sandboxes send has nothing in it that
// changes the host's links and tables, and neither has the guest service.
func TestLinksNoTables(t *testing.T) {
	list := exec.Command("go", "list", "-deps", ".", "../aether-guest")
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		for _, banned := range []string{"github.com/google/nftables", "github.com/vishvananda/netlink", "github.com/mdlayher/netlink", "aether/internal/host/nat"} {
			if strings.HasPrefix(path, banned) {
				t.Errorf("%s is linked", path)
			}
		}
	}
}
