package disk

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"aether/sandbox"
)

// attrPrefixes are numbered by the format; names are stored without them.
var attrPrefixes = []struct {
	index  byte
	prefix string
}{
	{2, "system.posix_acl_access"},
	{3, "system.posix_acl_default"},
	{1, "user."},
	{6, "security."},
}

const (
	attrHeader = 12
	attrEntry  = 4
	// maxAttrBytes is what the count in an inode can express.
	maxAttrBytes = attrHeader + attrEntry*(1<<16-2)
)

// packAttrs writes attributes as they follow an inode; none are no bytes.
func packAttrs(attrs map[string]string) ([]byte, error) {
	if len(attrs) == 0 {
		return nil, nil
	}
	b := make([]byte, attrHeader)
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		b = appendAttr(b, name, attrs[name])
	}
	if len(b) > maxAttrBytes {
		return nil, sandbox.Invalidf("image", "a file has attributes of %d bytes, more than %d", len(b), maxAttrBytes)
	}
	return b, nil
}

func appendAttr(b []byte, name, value string) []byte {
	for _, p := range attrPrefixes {
		rest, ok := strings.CutPrefix(name, p.prefix)
		if !ok {
			continue
		}
		b = append(b, byte(len(rest)), p.index)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
		b = append(append(b, rest...), value...)
		return append(b, make([]byte, roundUp(int64(len(b)), attrEntry)-int64(len(b)))...)
	}
	return b
}

// attrCount is how an inode tells the size of its attributes.
func attrCount(size int) uint16 {
	if size == 0 {
		return 0
	}
	return uint16((size-attrHeader)/attrEntry + 1)
}
