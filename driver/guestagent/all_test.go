package guestagent

import (
	"context"
	"errors"
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
