package vmm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/sandbox"
)

func TestFit(t *testing.T) {
	e := &engine{system: testSystem}
	source := &machine{engine: e, hardware: Hardware{MemoryMiB: 512, CPUs: 2}, spec: sandbox.Spec{Limits: sandbox.Limits{CPUs: 1.5, Processes: 10}}}
	has := source.manifest()
	for _, c := range []struct {
		asked sandbox.Limits
		field string
		cpus  float64
	}{
		{sandbox.Limits{}, "", 1.5},
		{sandbox.Limits{CPUs: 1.2}, "", 1.2},
		{sandbox.Limits{MemoryBytes: 512 << 20, Processes: 10}, "", 1.5},
		{sandbox.Limits{MemoryBytes: 256 << 20}, "limits.memory", 0},
		{sandbox.Limits{Processes: 11}, "limits.processes", 0},
		{sandbox.Limits{DiskBytes: 1 << 20}, "limits.disk", 0},
		{sandbox.Limits{DiskReadRate: 1 << 20}, "limits.disk_read_rate", 0},
		{sandbox.Limits{DiskWriteRate: 1 << 20}, "limits.disk_write_rate", 0},
		{sandbox.Limits{CPUs: 3}, "limits.cpus", 0},
	} {
		got, err := e.fit(has, c.asked)
		var failure *sandbox.Error
		switch {
		case c.field == "" && (err != nil || got.CPUs != c.cpus):
			t.Errorf("%+v: %+v, %v", c.asked, got, err)
		case c.field != "" && (!errors.As(err, &failure) || failure.Field != c.field):
			t.Errorf("%+v: %v", c.asked, err)
		}
	}
	e.emulated = true
	if _, err := e.fit(has, sandbox.Limits{}); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("of a machine with KVM, without: %v", err)
	}
	has.System = "another"
	if _, err := e.fit(has, sandbox.Limits{}); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Errorf("another system: %v", err)
	}
}

func TestManifestIsChecked(t *testing.T) {
	for _, text := range []string{
		"", "{}", `{"version":1,"hardware":{}}`, `{"version":9,"hardware":{"memory_mib":1,"cpus":1}}`,
		`{"version":1,"hardware":{"memory_mib":1,"cpus":-1}}`, strings.Repeat("[", 64<<10+1),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, manifestFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readManifest(dir); sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if _, err := readManifest(t.TempDir()); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("no snapshot: %v", err)
	}
}

func TestProcessors(t *testing.T) {
	for share, want := range map[float64]int{0: 1, 0.01: 1, 1: 1, 1.5: 2, 4: 4} {
		if got := processors(share); got != want {
			t.Errorf("%v: %d", share, got)
		}
	}
}
