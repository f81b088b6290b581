// Package snapshot keeps what sandboxes wrote over their images: each file's
// content once, whoever wrote it, and one more layer for overlayfs to make any
// number of sandboxes of. Pausing, mounting and who may restore what are not its
// business.
//
// # A snapshot
//
// A snapshot is a directory that needs nothing else and may be moved or copied:
//
//	snapshot.json  what it is, of which image, and the digest of
//	manifest       the entries that were written, one JSON object a line, which name
//	blobs/HEX      contents, by SHA-256
//
// What else belongs to a snapshot (what its processes were, say) is attached: more
// contents, which snapshot.json names.
//
// snapshot.json appears last, in one step, when all else is on disk: a directory
// without it is none.
//
// # The store
//
// Blobs and manifests of snapshots on the same file system are hard links to those
// of the store, so equal contents take room once, and one that nothing but the
// store names is garbage. The layer that sandboxes are restored from is unpacked
// from the first restore on, checked against its digests, and shared by all.
package snapshot
