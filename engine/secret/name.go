package secret

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"aether/sandbox"
)

const (
	maxName  = 64
	maxHosts = 64
	maxHost  = 253

	// What is kept with a secret is what E2B's clients are told that may be.
	maxMetadata      = 32
	maxMetadataKey   = 128
	maxMetadataValue = 1024
	maxMetadataBytes = 8192
)

var (
	named = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`) })
	// hosted is a name of at least one label whose last begins with a letter: no way of
	// writing an address does.
	hosted = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	})
)

// IsName says whether a text can name a secret: letters, digits and underscores, with no
// digit first, at most 64.
func IsName(text string) bool { return named().MatchString(text) }

// CheckName refuses what cannot name a secret. The error does not repeat the text: people
// give a value in its place. Errors: Invalid for the field name.
func CheckName(text string) error {
	if IsName(text) {
		return nil
	}
	return sandbox.Invalidf("name", "a secret's name is letters, digits and underscores, at most %d, and begins with no digit", maxName)
}

// CheckHosts gives the hosts that a secret may be sent to in the one way in which they are
// kept: lower-case, sorted, each once. A host is a name, or *. before a name of two labels
// or more. Errors: Invalid for the field hosts, by the place in the list.
func CheckHosts(hosts []string) ([]string, error) {
	if len(hosts) > maxHosts {
		return nil, sandbox.Invalidf("hosts", "%d are more than %d", len(hosts), maxHosts)
	}
	kept := make([]string, len(hosts))
	for i, host := range hosts {
		kept[i] = strings.ToLower(host)
		if !isHost(kept[i]) {
			return nil, sandbox.Invalidf("hosts", "number %d is not of the form api.example.com or *.example.com (other letters as xn--, no port, no address)", i+1)
		}
	}
	slices.Sort(kept)
	return slices.Compact(kept), nil
}

func isHost(text string) bool {
	name, wild := strings.CutPrefix(text, "*.")
	return len(text) <= maxHost && hosted().MatchString(name) && (!wild || strings.Contains(name, "."))
}

// CheckMetadata refuses what cannot be kept with a secret. The error repeats none of it.
// Errors: Invalid for the field metadata.
func CheckMetadata(metadata map[string]string) error {
	if len(metadata) > maxMetadata {
		return sandbox.Invalidf("metadata", "%d entries are more than %d", len(metadata), maxMetadata)
	}
	total := 0
	for key, value := range metadata {
		total += len(key) + len(value)
		switch {
		case key == "" || len(key) > maxMetadataKey || len(value) > maxMetadataValue:
			return sandbox.Invalidf("metadata", "a key has 1 to %d bytes and a value at most %d", maxMetadataKey, maxMetadataValue)
		case !utf8.ValidString(key) || !utf8.ValidString(value):
			return sandbox.Invalidf("metadata", "it is not UTF-8")
		}
	}
	if total > maxMetadataBytes {
		return sandbox.Invalidf("metadata", "%d bytes are more than %d", total, maxMetadataBytes)
	}
	return nil
}
