package firecracker

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"aether/sandbox"
)

// release is a version of Firecracker.
type release struct{ major, minor, patch int }

func (r release) String() string { return fmt.Sprintf("%d.%d.%d", r.major, r.minor, r.patch) }

func (r release) before(s release) bool {
	if r.major != s.major {
		return r.major < s.major
	}
	if r.minor != s.minor {
		return r.minor < s.minor
	}
	return r.patch < s.patch
}

var (
	// oldest describes its devices to kernels by ACPI, without which Debian's finds
	// none.
	oldest = release{1, 8, 0}
	// deaf to mended are the releases whose guests cannot be reached any more once
	// they were paused.
	deaf, mended = release{1, 16, 0}, release{1, 16, 2}
)

var versionLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^Firecracker v(\d{1,4})\.(\d{1,4})\.(\d{1,4})`) })

// readVersion reads the first line of what firecracker --version says.
func readVersion(said string) (string, error) {
	parts := versionLine().FindStringSubmatch(said)
	if parts == nil {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: fmt.Sprintf("it is not Firecracker: asked for its version, it says %.60q", said), Remedy: remedy}
	}
	r := parseRelease(parts[1:])
	if r.before(oldest) {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Reason: fmt.Sprintf("Firecracker %v is too old", r), Remedy: fmt.Sprintf("install %v or newer", oldest)}
	}
	return r.String(), nil
}

// parseRelease reads three numbers of few digits.
func parseRelease(parts []string) (r release) {
	for n, to := range []*int{&r.major, &r.minor, &r.patch} {
		*to, _ = strconv.Atoi(parts[n])
	}
	return r
}

var plainVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)$`) })

func mayPause(version string) error {
	parts := plainVersion().FindStringSubmatch(version)
	if parts == nil {
		return nil
	}
	r := parseRelease(parts[1:])
	if r.before(deaf) || !r.before(mended) {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Unavailable, Reason: fmt.Sprintf("a guest of Firecracker %v cannot be reached any more once it was paused", r),
		Remedy: fmt.Sprintf("install a release after %v, or one before %v", release{1, 16, 1}, deaf)}
}
