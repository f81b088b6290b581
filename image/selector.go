package image

import (
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// selector picks one of several images in a layout or archive. The zero value
// picks the only one there is.
type selector struct {
	tag    string
	digest v1.Hash
}

func (p selector) String() string {
	if p.tag != "" {
		return p.tag
	}
	return p.digest.String()
}

func wholePath(ref string) (string, selector, bool) { return ref, selector{}, true }

func cutDigest(ref string) (string, selector, bool) {
	at := strings.LastIndexByte(ref, '@')
	if at < 0 {
		return "", selector{}, false
	}
	digest, err := v1.NewHash(ref[at+1:])
	if err != nil || checkHash(digest) != nil {
		return "", selector{}, false
	}
	return ref[:at], selector{digest: digest}, true
}

// cutTag cuts at the first colon that ends the name of something that exists: the
// tags of docker archives are whole references with colons and slashes too.
func cutTag(ref string) (string, selector, bool) {
	for at := 0; at < len(ref); at++ {
		if ref[at] != ':' {
			continue
		}
		if there, _ := exists(ref[:at]); there && at+1 < len(ref) {
			return ref[:at], selector{tag: ref[at+1:]}, true
		}
	}
	return "", selector{}, false
}
