package cell_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"aether/sandbox"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestRemovedImage removes an image from the store while a driver keeps it, and cells
// of it, ready. The next cells are made of what the same reference then gives.
func TestRemovedImage(t *testing.T) {
	const ready = 2
	driver, _ := newDriverAhead(t, ready)
	ref := writeLayout(t, v1.Config{}, archive(t, map[string]string{"hello": "there"}, nil))
	var last time.Time
	if !eventually(30*time.Second, func() bool {
		if time.Since(last) > kept {
			for range 2 { // the second has cells made ahead, in which somebody stands by for a while
				destroy(t, create(t, driver, sandbox.Spec{Image: ref}))
			}
			last = time.Now()
		}
		now := descendants(t, os.Getpid())
		return len(now) == standing(t, ready) && !slices.ContainsFunc(now, beingMade)
	}) {
		t.Fatalf("%.2000q are ready", describe(descendants(t, os.Getpid())))
	}
	for range 2 { // the first would be one that was made ahead
		removeImage(t, ref)
		instance := create(t, driver, sandbox.Spec{Image: ref})
		if _, err := client(t, instance).Stat(t.Context(), "/hello"); err != nil {
			t.Error(err)
		}
		destroy(t, instance)
	}
}

func removeImage(t *testing.T, ref string) {
	t.Helper()
	store, err := images()
	if err != nil {
		t.Fatal(err)
	}
	list, err := store.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range list {
		if image.Ref == ref {
			if err := store.Remove(t.Context(), image.Digest); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("the store has no %s", ref)
}
