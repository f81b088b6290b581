package firecracker

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"aether/driver/vmm"
	"aether/sandbox"
)

func TestFindJailer(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "firecracker-v1.14.2-x86_64")
	if jail, missing := findJailer(program); jail != nil || missing == nil || missing.Cost == "" || missing.Remedy == "" {
		t.Errorf("without one: %v, %+v", jail, missing)
	}
	var path string
	var jail vmm.Jail
	for _, name := range []string{"jailer", "jailer-v1.14.2-x86_64"} { // the latter is better
		path = filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		var missing *sandbox.Gap
		if jail, missing = findJailer(program); missing != nil || jail != (jailer{path, program}) {
			t.Fatalf("%v, %+v", jail, missing)
		}
	}
	// The jailer makes its root out of these, and the driver must know where.
	if got, want := jail.Root("/base"), "/base/firecracker-v1.14.2-x86_64/machine/root"; got != want {
		t.Errorf("its root is %s, want %s", got, want)
	}
	got := jail.Command("/base", 7, 8, []string{"--api-sock", "api"})
	want := []string{path, "--id", "machine", "--exec-file", program, "--chroot-base-dir", "/base", "--uid", "7", "--gid", "8", "--", "--api-sock", "api"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
