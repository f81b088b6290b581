package sandbox

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

// FuzzPlainPath: a plain path stays below whatever it begins with, however a server reads
// it.
func FuzzPlainPath(f *testing.F) {
	for _, p := range []string{"/v1/", "/v1/..", "/v1/%2e%2e", "/v1/%252e", "/v1/..;x/", "/v1//", "/v1/a\\..\\b", "/v1/%", "/v1/x%2f..", "/v1/%00", "/v1/a%25"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if !strings.HasPrefix(p, "/v1/") || !IsPlainPath(p) {
			return
		}
		for read := p; ; {
			for _, way := range []string{read, strings.ReplaceAll(read, "\\", "/"), withoutParameters(read)} {
				if clean := path.Clean(way); !strings.HasPrefix(clean+"/", "/v1/") {
					t.Errorf("%q can be read as %q", p, clean)
				}
			}
			next, err := url.PathUnescape(read)
			if err != nil || next == read {
				return
			}
			read = next
		}
	})
}

// withoutParameters is a path as some servers read it.
func withoutParameters(p string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return strings.Join(segments, "/")
}
