package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"aether/sandbox"
)

// refusing is a driver that makes nothing.
type refusing struct {
	info sandbox.Info
	err  error
}

func (r refusing) Info() sandbox.Info                   { return r.info }
func (r refusing) Probe(context.Context) sandbox.Report { return sandbox.Report{} }
func (r refusing) Create(context.Context, sandbox.Spec) (sandbox.Instance, error) {
	return nil, r.err
}

func refusals(made *[]string, errs ...error) *Drivers {
	var makers []sandbox.Maker
	for i, err := range errs {
		name := string(rune('a' + i))
		makers = append(makers, sandbox.Maker{Name: name, New: func() sandbox.Driver {
			*made = append(*made, name)
			return refusing{sandbox.Info{Name: name, Boundary: sandbox.Boundary(1 + i%3)}, err}
		}})
	}
	return NewDrivers(makers)
}

// TestBestRefusalIsSaid: what the best driver lacks here can be mended, and is not
// hidden by a lesser one that never can.
func TestBestRefusalIsSaid(t *testing.T) {
	here := &sandbox.Error{Class: sandbox.Unavailable, Reason: "not here"}
	never := &sandbox.Error{Class: sandbox.Unsupported, Reason: "never"}
	for _, c := range []struct{ best, lesser, want error }{{here, never, here}, {here, here, here}, {never, here, never}} {
		list, err := refusals(&[]string{}, c.best, c.lesser).Candidates("", sandbox.AnyBoundary)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := list.Create(t.Context(), sandbox.Spec{}); !errors.Is(err, c.want) {
			t.Errorf("%v, then %v: %v", c.best, c.lesser, err)
		}
	}
}

// TestCandidates: by name or by need, and none is made that is not reached.
func TestCandidates(t *testing.T) {
	never := &sandbox.Error{Class: sandbox.Unsupported, Reason: "never"}
	for _, c := range []struct {
		name  string
		want  sandbox.Boundary
		made  string
		field string
	}{
		{"", sandbox.AnyBoundary, "a", ""},
		{"", sandbox.KernelBoundary, "a b", ""},
		{"", sandbox.HardwareBoundary, "a b c", ""},
		{"c", sandbox.AnyBoundary, "c", ""},
		{"a", sandbox.KernelBoundary, "a", "driver"},
		{"d", sandbox.AnyBoundary, "", "driver"},
	} {
		var made []string
		_, err := refusals(&made, never, never, never).Candidates(c.name, c.want)
		var e *sandbox.Error
		if errors.As(err, &e) != (c.field != "") || e != nil && e.Field != c.field {
			t.Errorf("%q, %v: %v", c.name, c.want, err)
		}
		if got := strings.Join(made, " "); got != c.made {
			t.Errorf("%q, %v made %q, want %q", c.name, c.want, got, c.made)
		}
	}
	if _, err := refusals(&[]string{}, never).Candidates("", sandbox.HardwareBoundary); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("nobody is strong enough: %v", err)
	}
}

// TestForOne: what is made for one sandbox is made so where that is another, and what was
// made before stays.
func TestForOne(t *testing.T) {
	var made []string
	maker := func(kind string) func() sandbox.Driver {
		return func() sandbox.Driver {
			made = append(made, kind)
			return refusing{sandbox.Info{Name: kind}, nil}
		}
	}
	d := NewDrivers([]sandbox.Maker{{Name: "a", New: maker("a"), One: maker("one a")}, {Name: "b", New: maker("b"), One: maker("one b")}, {Name: "c", New: maker("c")}})
	for _, name := range []string{"a", "a", "b", "c"} {
		if _, err := d.Named(name); err != nil {
			t.Fatal(err)
		}
		d.ForOne()
	}
	if got := strings.Join(made, ", "); got != "a, one b, c" {
		t.Errorf("made: %s", got)
	}
}
