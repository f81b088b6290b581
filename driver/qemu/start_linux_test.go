package qemu

import (
	"context"
	"testing"
)

// BenchmarkStart is the time from Create to the end of a first command, of machines
// that are booted and of those that go on from a template.
func BenchmarkStart(b *testing.B) {
	if err := findKernel(); err != nil {
		b.Skip(err)
	}
	for name, cold := range map[string]bool{"cold": true, "template": false} {
		b.Run(name, func(b *testing.B) {
			opts := testOptions(b.TempDir())
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

func startOne(b *testing.B, d *Driver) {
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
