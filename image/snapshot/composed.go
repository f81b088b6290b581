package snapshot

const (
	// pageSize is what contents are compared by: they are the memory of processes.
	pageSize = 4096
	// leastComposed is the smallest content that is looked at, and leastRun how many
	// pages in a row are worth to be named instead of kept.
	leastComposed = 1 << 20
	leastRun      = 4

	maxBase     = 7
	maxParts    = 1 << 16
	maxComposed = 1 << 40
)

// composition is a content that is kept as parts of other contents: what it has in common
// with an earlier one is named, and the rest is a content of its own.
type composition struct {
	// Base are the contents of others, and Own is what they do not have; it may be empty.
	Base []string `json:"base"`
	Own  string   `json:"own,omitempty"`
	// Parts are, in turn: the place of a content in Base, or len(Base) for Own, and the
	// offset and length in it.
	Parts [][3]int64 `json:"parts"`
}

// blobs are all contents that it is made of.
func (c composition) blobs() []string {
	if c.Own == "" {
		return c.Base
	}
	return append(c.Base[:len(c.Base):len(c.Base)], c.Own)
}

// checkComposed refuses what compose would not have made.
func checkComposed(list map[string]composition) error {
	for digest, c := range list {
		if !isDigest(digest) || len(c.Base) == 0 || len(c.Base) > maxBase || len(c.Parts) > maxParts {
			return broken(nil, "%s has %.80q composed of %d contents in %d parts", recordName, digest, len(c.Base), len(c.Parts))
		}
		blobs, size := c.blobs(), int64(0)
		for _, blob := range blobs {
			if !isDigest(blob) {
				return broken(nil, "%s has %.80q composed of %.80q", recordName, digest, blob)
			}
		}
		for _, p := range c.Parts {
			if p[0] < 0 || p[0] >= int64(len(blobs)) || p[1] < 0 || p[2] <= 0 || p[1] > maxComposed || p[2] > maxComposed-size {
				return broken(nil, "%s has %.80q composed of the part %v", recordName, digest, p)
			}
			size += p[2]
		}
	}
	return nil
}
