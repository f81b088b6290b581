package kernel

import (
	"os"
	"path/filepath"
	"testing"

	"aether/sandbox"
)

// packageTools play the distribution's: only their conversation with Install is
// tested, not an archive on the network.
func packageTools(t *testing.T, depends, fetch string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range map[string]string{
		"apt-cache": "echo " + metaPackage() + "; echo '  Depends: " + depends + "'",
		"apt-get":   fetch,
		"dpkg-deb": `mkdir -p $3/boot $3/lib/modules/6.1.0-9-cloud
			cp "$KERNEL" $3/boot/vmlinuz-6.1.0-9-cloud`,
	} {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	t.Setenv("KERNEL", put(t, filepath.Join(dir, "kernel"), loaderFor("6.1.0-9-cloud", []byte("\x7fELF"))))
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	t.Setenv("FETCHED", filepath.Join(dir, "fetched"))
}

func TestInstall(t *testing.T) {
	packageTools(t, "linux-image-6.1.0-9-cloud", `echo $3 >> "$FETCHED"; touch kernel.deb`)
	dir := filepath.Join(t.TempDir(), "kernels")
	for range 2 {
		k, err := Install(t.Context(), dir)
		if err != nil || k.Release != "6.1.0-9-cloud" {
			t.Fatalf("%+v, %v", k, err)
		}
		if found, err := Find(Places{Installed: dir, Host: t.TempDir()}); err != nil || found != k {
			t.Errorf("found %+v, %v", found, err)
		}
	}
	fetched, err := os.ReadFile(os.Getenv("FETCHED"))
	if err != nil || string(fetched) != "linux-image-6.1.0-9-cloud\n" {
		t.Errorf("fetched %q, %v", fetched, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestInstallFails(t *testing.T) {
	for name, c := range map[string]struct{ depends, fetch string }{
		"no such package":     {"something-else", "exit 0"},
		"a path as a package": {"linux-image-/../x", "exit 0"},
		"no network":          {"linux-image-6.1.0-9-cloud", "echo 'E: no network' >&2; exit 100"},
		"nothing fetched":     {"linux-image-6.1.0-9-cloud", "exit 0"},
		"no kernel in it":     {"linux-image-6.1.0-9-cloud", `touch kernel.deb; : > "$KERNEL"`},
	} {
		t.Run(name, func(t *testing.T) {
			packageTools(t, c.depends, c.fetch)
			dir := filepath.Join(t.TempDir(), "kernels")
			if k, err := Install(t.Context(), dir); sandbox.ClassOf(err) != sandbox.Unavailable {
				t.Errorf("%+v, %v", k, err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Install(t.Context(), t.TempDir()); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("without a package manager: %v", err)
	}
}
