package guestagent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"aether/sandbox"
)

// counted is a sandbox of which only the end exists.
type counted struct {
	sandbox.Instance
	destroyed int
}

func (c *counted) Destroy(ctx context.Context) error {
	c.destroyed++
	return ctx.Err()
}

func TestMakeAllOrNone(t *testing.T) {
	specs := []sandbox.Spec{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	for _, bad := range []string{"", "a", "c"} {
		ctx, giveUp := context.WithCancel(t.Context())
		made := map[string]*counted{"a": {}, "b": {}, "c": {}}
		failure := errors.New("no room")
		list, err := MakeAll(ctx, specs, func(spec sandbox.Spec) (sandbox.Instance, error) {
			giveUp()
			if spec.ID == bad {
				return (*counted)(nil), failure
			}
			return made[spec.ID], nil
		})
		if bad == "" {
			if err != nil || len(list) != 3 || list[1] != made["b"] {
				t.Errorf("%v, %v", list, err)
			}
			continue
		}
		if !errors.Is(err, failure) || errors.Is(err, context.Canceled) || list != nil {
			t.Errorf("%s: %v, %v", bad, list, err)
		}
		for id, c := range made {
			if want := map[bool]int{true: 0, false: 1}[id == bad]; c.destroyed != want {
				t.Errorf("%s failed, and %s was destroyed %d times", bad, id, c.destroyed)
			}
		}
	}
}

// TestDiscard: that something could not be removed is told, and is no failure of those
// who were made from it.
func TestDiscard(t *testing.T) {
	var told bytes.Buffer
	log := slog.New(slog.NewTextHandler(&told, nil))
	Discard(log, "it could not be removed", func() error { return nil })
	if told.Len() > 0 {
		t.Errorf("of nothing was told %q", told.String())
	}
	Discard(log, "it could not be removed", func() error { return errors.New("no disk") })
	if !strings.Contains(told.String(), "it could not be removed") || !strings.Contains(told.String(), "no disk") {
		t.Errorf("%q", told.String())
	}
}
