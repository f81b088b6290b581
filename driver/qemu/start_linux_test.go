package qemu

import (
	"context"
	"testing"

	"aether/driver/vmm"
	"aether/driver/vmm/vmmtest"
)

// BenchmarkStart is the time from Create to the end of a first command, of machines
// that are booted and of those that go on from a template.
func BenchmarkStart(b *testing.B) {
	suite.Need(b)
	for name, cold := range map[string]bool{"cold": true, "template": false} {
		b.Run(name, func(b *testing.B) {
			opts := Options{Options: vmmtest.Options(b.TempDir())}
			opts.Cold = cold
			d := New(opts)
			defer d.Close(context.Background())
			startOne(b, d) // makes the disk and the template
			for b.Loop() {
				startOne(b, d)
			}
		})
	}
}

func startOne(b *testing.B, d *vmm.Driver) {
	b.Helper()
	i, err := d.Create(b.Context(), testSpec())
	if err != nil {
		b.Fatal(err)
	}
	run(b, i, "true")
	if err := i.Destroy(context.Background()); err != nil {
		b.Fatal(err)
	}
}
