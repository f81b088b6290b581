//go:build linux

package guest

import (
	"errors"
	"net/http"
	"os"
	"strings"

	"aether/internal/host/inroot"
	"aether/sandbox"
)

// What a client attaches to a file travels as headers and is kept as extended
// attributes.
const (
	metadataHeader = "X-Metadata-"
	metadataAttr   = "user.aether."
	maxMetadataKey = 255 - len(metadataAttr)
	maxMetadata    = 4096
)

func metadataOf(header http.Header) (map[string]string, error) {
	meta, size := map[string]string{}, 0
	for name, values := range header {
		key, ours := strings.CutPrefix(name, metadataHeader)
		if !ours || key == "" || len(values) == 0 {
			continue
		}
		if len(key) > maxMetadataKey || !printable(key) || !printable(values[0]) {
			return nil, sandbox.Invalidf(clip(name), "the name is over %d bytes, or something is not printable ASCII", maxMetadataKey)
		}
		size += len(metadataAttr) + len(key) + len(values[0])
		meta[strings.ToLower(key)] = values[0]
	}
	if size > maxMetadata {
		return nil, sandbox.Invalidf("metadata", "%d bytes are more than %d", size, maxMetadata)
	}
	return meta, nil
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// setMetadata answers what was kept: nothing, on a file system that has no
// attributes.
func setMetadata(f *os.File, meta map[string]string) (map[string]string, error) {
	for key, value := range meta {
		switch err := inroot.SetAttr(f, metadataAttr+key, value); {
		case errors.Is(err, errors.ErrUnsupported):
			return nil, nil
		case err != nil:
			return nil, err
		}
	}
	return meta, nil
}
