package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range hosts {
		if seen[h.name] || h.name == "" || h.why == "" || strings.ContainsAny(h.name, ", /") {
			t.Errorf("%q is there twice, has no reason, or cannot be named in a list or a file", h.name)
		}
		seen[h.name] = true
		if architectures[h.root.arch].emulator == "" {
			t.Errorf("%s: nobody emulates %q", h.name, h.root.arch)
		}
		if !slices.Contains(h.root.kernels(), h.kernel) {
			t.Errorf("%s boots a kernel %q that its root does not have", h.name, h.kernel)
		}
		if h.profile != "" && !strings.Contains(h.profile, "profile "+profileName+" ") {
			t.Errorf("%s has a profile that nobody enters", h.name)
		}
		checkWays(t, h)
	}
}

// Every way has an expectation, for steps that there are, in patterns that compile
// and say what a remedy looks like.
func checkWays(t *testing.T, h host) {
	t.Helper()
	for _, way := range ways {
		e, ok := h.ways[way]
		if !ok {
			t.Errorf("%s: nothing is expected of %s", h.name, way)
		}
		for step, pattern := range e.refuses {
			if step != everything && !slices.Contains(steps, step) {
				t.Errorf("%s, %s: there is no step %q", h.name, way, step)
			}
			if _, err := regexp.Compile(pattern); err != nil || pattern == "" {
				t.Errorf("%s, %s, %s: %q: %v", h.name, way, step, pattern, err)
			}
		}
	}
	for way := range h.ways {
		if !slices.Contains(ways, way) {
			t.Errorf("%s: there is no way %q", h.name, way)
		}
	}
}

// A root that is made of something else has another name, so that the cache cannot
// give the old one for it.
func TestRootNames(t *testing.T) {
	names := map[string]bool{}
	for _, r := range []root{bookworm, bookworm.small(), trixie, trixie.small(), bookwormARM, {suite: "bookworm", arch: "amd64", packages: bookworm.packages, container: true}} {
		if names[r.name()] {
			t.Errorf("%+v has the name of another", r)
		}
		names[r.name()] = true
	}
}

func TestPlan(t *testing.T) {
	h := host{name: "h", ways: map[string]expectation{
		wayRoot:      {},
		wayUser:      {refuses: map[string]string{everything: "no", stepLimits: "never"}},
		wayDelegated: {absent: "none"},
		wayDocker:    {refuses: map[string]string{everything: "no"}},
	}}
	jobs, skipped := plan(h, ways, []string{stepLimits, stepOwn, stepRemedy, stepLeaks})
	want := []job{
		{wayRoot, stepLimits, ""}, {wayRoot, stepOwn, ""}, {wayRoot, stepLeaks, ""},
		{wayUser, stepLimits, "never"}, {wayUser, stepLeaks, "no"},
		{wayDocker, stepLimits, "no"}, {wayDocker, stepRemedy, "no"}, {wayDocker, stepLeaks, "no"},
	}
	if !slices.Equal(jobs, want) {
		t.Errorf("jobs %v, want %v", jobs, want)
	}
	// The tests of a refused engine, twice, and the three steps of an absent way.
	if len(skipped) != 5 || slices.ContainsFunc(skipped, func(r result) bool { return r.Verdict != skip || r.Reason == "" }) {
		t.Errorf("skipped %+v", skipped)
	}
}

func TestEveryStepIsKnown(t *testing.T) {
	for step := range suites {
		if !slices.Contains(steps, step) {
			t.Errorf("tests for %q, which is no step", step)
		}
	}
	for _, step := range briefSteps {
		if !slices.Contains(steps, step) {
			t.Errorf("%q is no step", step)
		}
	}
	if folders := testFolders(steps); len(folders) != 8 || len(testFolders([]string{stepFirst})) != 0 {
		t.Errorf("test binaries of %q", folders)
	}
}
