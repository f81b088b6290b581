package sandbox

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestReportErr(t *testing.T) {
	if err := (Report{Usable: true, Gaps: []Gap{{Missing: "landlock", Cost: "one layer less"}}}).Err("cell"); err != nil {
		t.Errorf("a usable driver with a gap gives %v", err)
	}
	err := Report{Reason: "no /dev/kvm", Remedy: "load kvm"}.Err("firecracker")
	var e *Error
	if !errors.As(err, &e) || e.Class != Unavailable {
		t.Fatalf("got %#v", err)
	}
	if want := "firecracker: no /dev/kvm (load kvm)"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		t.Error("what a host lacks today is taken for what a driver never can")
	}
}

func TestUnknownFiguresAreAbsent(t *testing.T) {
	zero := int64(0)
	for _, c := range []struct {
		stats Stats
		want  string
	}{{Stats{}, `{}`}, {Stats{Processes: &zero}, `{"processes":0}`}} {
		if got, err := json.Marshal(c.stats); err != nil || string(got) != c.want {
			t.Errorf("got %s, %v, want %s", got, err, c.want)
		}
	}
}
