package sandbox

import (
	"net/url"
	"strings"
)

// maxEscapes is how many times a path may be escaped over and over.
const maxEscapes = 3

// IsPlainPath says whether every server reads an escaped path of HTTP as the same one:
// nothing in it is a way up, or an empty name, or ends the path, however often escapes are
// undone.
func IsPlainPath(path string) bool {
	for range maxEscapes {
		if !isPlain(path) {
			return false
		}
		next, err := url.PathUnescape(path)
		if err != nil {
			return false
		}
		if next == path {
			return true
		}
		path = next
	}
	return false
}

func isPlain(path string) bool {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\\?#") {
		return false
	}
	for _, c := range []byte(path) {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		s, _, _ = strings.Cut(s, ";") // some servers take what follows for parameters
		switch s {
		case ".", "..":
			return false
		case "":
			if i < len(segments)-1 || segments[i] != "" {
				return false
			}
		}
	}
	return true
}
