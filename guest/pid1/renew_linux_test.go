package pid1

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRenewalValidate(t *testing.T) {
	good := Renewal{Secret: make([]byte, 32), Now: time.Now(), Hostname: "a", MachineID: strings.Repeat("0f", 16)}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for what, spoil := range map[string]func(*Renewal){
		"no secret":     func(r *Renewal) { r.Secret = nil },
		"a long secret": func(r *Renewal) { r.Secret = make([]byte, maxControl+1) },
		"no time":       func(r *Renewal) { r.Now = time.Time{} },
		"no name":       func(r *Renewal) { r.Hostname = "" },
		"a long name":   func(r *Renewal) { r.Hostname = strings.Repeat("a", 65) },
		"a short id":    func(r *Renewal) { r.MachineID = "0f" },
		"a strange id":  func(r *Renewal) { r.MachineID = strings.Repeat("0F", 16) },
	} {
		bad := good
		if spoil(&bad); bad.Validate() == nil {
			t.Errorf("%s: it is taken", what)
		}
	}
}

// The number of a machine is replaced where there is one, and nothing else is written.
func TestMachineID(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("0f", 16)
	for what, c := range map[string]struct {
		make func(etc string) error
		want string // what the file says
	}{
		"one":    {func(etc string) error { return os.WriteFile(etc+"/machine-id", []byte("old\n"), 0o444) }, id + "\n"},
		"none":   {func(string) error { return nil }, ""},
		"a link": {func(etc string) error { return os.Symlink(outside, etc+"/machine-id") }, "old\n"},
		"a trap aside": {func(etc string) error {
			return errors.Join(os.WriteFile(etc+"/machine-id", nil, 0o444), os.Symlink(outside, etc+"/.machine-id.aether"))
		}, id + "\n"},
	} {
		root := t.TempDir()
		etc := filepath.Join(root, "etc")
		if err := errors.Join(os.Mkdir(etc, 0o755), c.make(etc)); err != nil {
			t.Fatal(err)
		}
		if err := writeMachineID(root, id); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got, err := os.ReadFile(etc + "/machine-id"); string(got) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: it says %q, %v", what, got, err)
		}
	}
	if got, err := os.ReadFile(outside); string(got) != "old\n" || err != nil {
		t.Errorf("what is outside says %q, %v", got, err)
	}
}

// Commands are stopped once and go on once, whoever wants them to stand still at a time.
func TestHolds(t *testing.T) {
	var frozen, thawed int
	freeze := func(context.Context) (func() error, error) {
		frozen++
		return func() error { thawed++; return nil }, nil
	}
	var h holds
	for n, step := range []struct {
		do             func() error
		frozen, thawed int
	}{
		{func() error { return h.hold(t.Context(), freeze) }, 1, 0},
		{func() error { return h.hold(t.Context(), freeze) }, 1, 0},
		{func() error { return h.take(t.Context(), freeze) }, 1, 0}, // as files are sent
		{h.letGo, 1, 0},
		{h.release, 1, 1},
		{h.letGo, 1, 1}, // as in a copy of a machine that held nothing
		{func() error { return h.hold(t.Context(), freeze) }, 2, 1},
		{h.letGo, 2, 2},
	} {
		if err := step.do(); err != nil || frozen != step.frozen || thawed != step.thawed {
			t.Errorf("step %d: frozen %d and thawed %d times, %v", n, frozen, thawed, err)
		}
	}
	refuses := func(context.Context) (func() error, error) { return nil, errors.New("no cgroups") }
	if err := h.hold(t.Context(), refuses); err == nil {
		t.Error("what cannot be stopped is held")
	}
	if err := h.letGo(); err != nil || thawed != 2 {
		t.Errorf("what was not held was let go: %v", err)
	}
}
