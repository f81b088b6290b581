package engine_test

import (
	"fmt"
	"testing"

	"aether/driver/cell"
	"aether/engine"
	"aether/sandbox"
)

// BenchmarkCreate makes and ends a sandbox: by its driver alone, and by an engine that
// remembers it.
func BenchmarkCreate(b *testing.B) {
	b.Run("driver", func(b *testing.B) {
		h := newHouse(b, sandbox.Checkpoint)
		driver := h.options().Drivers[0].New()
		defer driver.(*cell.Driver).Close(b.Context())
		for b.Loop() {
			instance, err := driver.Create(b.Context(), sandbox.Spec{})
			if err == nil {
				err = instance.Destroy(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, keyed := range map[string]bool{"engine": false, "engine, with a key": true} {
		b.Run(name, func(b *testing.B) {
			e := newHouse(b, sandbox.Checkpoint).open()
			for n := 0; b.Loop(); n++ {
				req := engine.CreateRequest{}
				if keyed {
					req.Key = fmt.Sprint(n)
				}
				s := create(b, e, alice, req)
				if err := e.Destroy(b.Context(), alice, s.ID); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
