package checkpoint_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"aether/internal/host/checkpoint"
	"aether/internal/host/checkpoint/checkpointtest"
	"aether/internal/host/inroot"
	"aether/internal/host/zygote"
	"aether/sandbox"
)

// TestForkCarriesOver forks processes with everything that they may hold: it is the
// same in the child, in the child's child and in the source, each by itself.
func TestForkCarriesOver(t *testing.T) {
	s := newScene(t)
	for _, k := range checkpointtest.Carried {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			source := s.start(t, k.Program())
			child, err := source.fork(t, s)
			if err != nil {
				t.Fatal(err)
			}
			grandchild, err := child.fork(t, s)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range []*program{child, grandchild, source} {
				p.say(t)
				p.hear(t, k.Want)
			}
		})
	}
}

// TestForkRefuses: what cannot be carried over is refused by name, and the source goes
// on.
func TestForkRefuses(t *testing.T) {
	s := newScene(t)
	for _, c := range checkpointtest.Refused {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			source := s.start(t, c.Program())
			_, err := source.fork(t, s)
			var refusal *sandbox.Error
			if !errors.As(err, &refusal) || refusal.Class != sandbox.Conflict {
				t.Fatalf("the fork says %v", err)
			}
			if !strings.Contains(refusal.Reason, c.Says) || !regexp.MustCompile(`^process [2-9] `).MatchString(refusal.Reason) {
				t.Errorf("it says %v, not %q of a process", err, c.Says)
			}
			if refusal.Retry != c.Retry || refusal.Remedy == "" {
				t.Errorf("it says retry %v, remedy %q", refusal.Retry, refusal.Remedy)
			}
			source.say(t)
			source.hear(t, "lives")
		})
	}
}

// TestImageCarriesOver restores processes from an image that went through JSON and
// files, when the source has gone on.
func TestImageCarriesOver(t *testing.T) {
	s := newScene(t)
	for _, k := range checkpointtest.Carried {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			source := s.start(t, k.Program())
			cell := s.boot(t)
			image, open, err := source.encode(t, s, cell)
			if err != nil {
				t.Fatal(err)
			}
			source.say(t)
			source.hear(t, k.Want)
			tree, err := zygote.Decode(s.host, cell, throughJSON(t, image), open)
			if err != nil {
				t.Fatal(err)
			}
			child, err := source.restore(t, tree, cell)
			if err := errors.Join(err, tree.Close()); err != nil {
				t.Fatal(err)
			}
			child.say(t)
			child.hear(t, k.Want)
		})
	}
}

func throughJSON(t *testing.T, image *checkpoint.Image) *checkpoint.Image {
	t.Helper()
	data, err := json.Marshal(image)
	if err != nil {
		t.Fatal(err)
	}
	again := &checkpoint.Image{}
	if err := json.Unmarshal(data, again); err != nil {
		t.Fatal(err)
	}
	return again
}

// stamp notes which files the processes have in their memory.
func (p *program) stamp(list []checkpoint.Running, into map[string]checkpoint.Stamp) error {
	dir, err := p.cell.Root()
	if err != nil {
		return err
	}
	root := inroot.New(dir)
	defer root.Close()
	for _, r := range list {
		if err := checkpoint.Stamps(r.PID, root, into); err != nil {
			return err
		}
	}
	return nil
}
