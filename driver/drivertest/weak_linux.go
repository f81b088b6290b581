package drivertest

import (
	"context"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"

	"aether/sandbox"
)

// WantFailures runs one test of this very binary again, with variables of the
// form NAME=value that make its driver a bad one, and wants the named subtests to
// fail. So a suite proves that it notices.
func WantFailures(t *testing.T, test string, env []string, subtests ...string) {
	t.Helper()
	var groups, names []string
	for _, name := range subtests {
		group, own, _ := strings.Cut(name, "/")
		groups, names = append(groups, group), append(names, strings.ReplaceAll(own, " ", "_"))
	}
	pattern := "^" + test + "$/^(" + strings.Join(groups, "|") + ")$/^(" + strings.Join(names, "|") + ")$"
	cmd := osexec.Command("/proc/self/exe", "-test.v", "-test.count=1", "-test.timeout=10m", "-test.run="+pattern)
	cmd.Env = append(append(os.Environ(), hastyVariable+"=1"), env...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("%q: a bad driver passes", env)
	}
	for _, name := range subtests {
		if !strings.Contains(string(out), "--- FAIL: "+test+"/"+strings.ReplaceAll(name, " ", "_")+" ") {
			t.Errorf("%q: %s did not fail:\n%.4000s", env, name, out)
		}
	}
}

// OneForAll makes a bad driver of another: whoever asks for a sandbox while there is one
// is given that one.
func OneForAll(driver sandbox.Driver) sandbox.Driver { return &oneForAll{Driver: driver} }

type oneForAll struct {
	sandbox.Driver
	mu  sync.Mutex
	one sandbox.Instance
}

func (d *oneForAll) Create(ctx context.Context, spec sandbox.Spec) (_ sandbox.Instance, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.one == nil {
		if d.one, err = d.Driver.Create(ctx, spec); err != nil {
			return nil, err
		}
	}
	return sharedInstance{d.one, d}, nil
}

type sharedInstance struct {
	sandbox.Instance
	of *oneForAll
}

func (i sharedInstance) Destroy(ctx context.Context) error {
	i.of.mu.Lock()
	defer i.of.mu.Unlock()
	i.of.one = nil
	return i.Instance.Destroy(ctx)
}
