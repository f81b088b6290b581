package snapshot

const (
	maxAttached     = 1 << 14
	maxAttachedName = 64
)

// checkAttached refuses what Attach would not have made.
func checkAttached(list map[string]string) error {
	if len(list) > maxAttached {
		return broken(nil, "%s has %d contents attached", recordName, len(list))
	}
	for name, digest := range list {
		if name == "" || len(name) > maxAttachedName || !isDigest(digest) {
			return broken(nil, "%s has %.80q attached, as %.80q", recordName, name, digest)
		}
	}
	return nil
}
