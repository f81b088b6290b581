package control

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"aether/lab/labtest"
	"aether/lab/run"
	"aether/profile"
)

// TestMeasure goes through the rubric with real engines.
func TestMeasure(t *testing.T) {
	systems := labtest.Systems(t)
	store := labtest.Store(t, systems)
	if err := Measure(t.Context(), systems, Options{Budget: time.Minute, Dir: t.TempDir()}, store); err != nil {
		t.Fatal(err)
	}
	for _, s := range systems {
		a := labtest.Axis(t, store, s.Name, profile.AgentControl)
		if a.Score == nil || len(a.Facts) != 2*len(Facts) {
			t.Fatalf("%s: %+v", s.Name, a)
		}
		for _, f := range a.Facts {
			t.Logf("%s: %s by %s: %v: %s", s.Name, f.Fact, f.By, f.Holds, f.Proof)
			// Through Aether, everything works but for what the driver cannot do.
			want := f.By == run.Through && (f.Fact != Fork || labtest.Forks(s))
			if f.By == run.Native {
				want = s.Name == "cell" && (f.Fact != Fork || labtest.Forks(s)) || f.Fact == Create || f.Fact == Policy
			}
			if f.Holds != want {
				t.Errorf("%s: %s by %s is %v: %s", s.Name, f.Fact, f.By, f.Holds, f.Proof)
			}
		}
	}
}

// TestNatives calls the own interfaces of those systems that are here.
func TestNatives(t *testing.T) {
	programs := map[string]string{"bubblewrap": "bwrap", "gvisor": "runsc", "lxc": "lxc-attach", "qemu-kvm": "qemu-system-x86_64", "docker": "dockerd"}
	for name, call := range natives {
		if name == "docker" {
			continue // which needs a daemon; the lab is run with one
		}
		program := name
		if other, ok := programs[name]; ok {
			program = other
		}
		if _, err := exec.LookPath(program); errors.Is(err, exec.ErrNotFound) {
			t.Logf("without %s: %v", name, err)
			continue
		}
		found, err := call(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found[Create] = shown{true, "by its driver"}
		if without := missing(found); len(without) > 0 {
			t.Errorf("%s: nothing is shown of %v", name, without)
		}
		t.Logf("%s: %+v", name, found)
	}
}

func TestReadQMP(t *testing.T) {
	found, err := readQMP(bytes.NewBufferString(`{"QMP":{}}{"id":"schema","return":[{},{}]}{"id":"commands","return":[{"name":"migrate"}]}
{"id":"failure","error":{"class":"CommandNotFound"}}{"event":"SHUTDOWN"}`))
	if err != nil || !found[Snapshot].holds || found[Exec].holds || !found[Errors].holds || !found[Events].holds || !found[Schema].holds {
		t.Errorf("%+v, %v", found, err)
	}
	for _, bad := range []string{"", "x", `{"id":"schema","return":1}`} {
		if _, err := readQMP(bytes.NewBufferString(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	said, err := output(t.Context(), "sh", "-c", "yes | head -c 1000000")
	if err != nil || len(said) != maxOutput {
		t.Errorf("%d bytes, %v", len(said), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := output(ctx, "sleep", "60"); err == nil {
		t.Error("it goes on")
	}
}
