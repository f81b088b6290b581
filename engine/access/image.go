package access

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"aether/sandbox"
)

// reference is how an image in a registry is written. Nothing that a file could be
// found by is written so: whatever is not known to be a reference counts as a path.
var reference = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:-]*(/[a-zA-Z0-9][a-zA-Z0-9._-]*)*(:[a-zA-Z0-9_][a-zA-Z0-9._-]*)?(@sha256:[0-9a-f]{64})?$`)
})

// dockerHub is the registry of references that name none.
const dockerHub = "docker.io"

func allowImage(p Policy, s sandbox.Spec) error {
	image := s.Image
	switch {
	case image == "" || image == sandbox.HostImage || slices.Contains(p.Images, image):
		return nil
	case !reference().MatchString(image):
		return denied("image", askOperator, "a tenant may not use %.80q, which may be a path of the host", image)
	}
	registry := registryOf(image)
	switch {
	case slices.Contains(p.Registries, registry):
		return nil
	case len(p.Registries) > 0:
		return denied("image", askOperator, "a tenant may use images of %s, and not of %.80q", strings.Join(p.Registries, ", "), registry)
	case !isPublicName(registry):
		// The host can reach itself and its neighbours; a tenant shall not by way of it.
		return denied("image", askOperator, "a tenant may not have images fetched from %.80q, which is not a public name", registry)
	}
	return nil
}

// registryOf is the registry of a reference, told from a first folder as all tools
// do: it has a dot or a port, or is localhost.
func registryOf(image string) string {
	first, _, found := strings.Cut(image, "/")
	if found && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return strings.ToLower(first)
	}
	return dockerHub
}

// localSuffixes end names that are resolved near the host alone.
var localSuffixes = []string{"localhost", "local", "localdomain", "internal", "intranet", "private", "corp", "home", "lan", "arpa", "test", "invalid", "onion"}

var label = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$`) })

// isPublicName says whether text is a host's name of the public DNS, by how it is
// written: no address in any spelling, no port, and no name of the host's own
// network. What such a name resolves to is to be checked by whoever connects.
func isPublicName(text string) bool {
	labels := strings.Split(strings.ToLower(text), ".")
	last := labels[len(labels)-1]
	if len(labels) < 2 || len(text) > 253 || slices.Contains(localSuffixes, last) || last == "" || last[0] < 'a' || last[0] > 'z' {
		return false
	}
	for _, l := range labels {
		if len(l) > 63 || !label().MatchString(l) {
			return false
		}
	}
	return true
}
