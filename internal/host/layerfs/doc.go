// Package layerfs writes the entries of an image layer into one directory, such
// that no name, link or order of entries reaches outside it, and in the form in
// which overlayfs reads layers from within a user namespace. Archive formats,
// sizes and digests are not its business.
//
// # Whiteouts
//
// A removed name is a character device 0/0 and a replaced directory carries the
// attribute user.overlay.opaque. The kernel lets everybody make that one device
// (since 5.8) and reads that attribute on mounts with the option userxattr (since
// 5.11), so wherever such a mount is possible so is this form, with and without
// privilege. The form of attributes alone needs 6.7 and is not used.
//
// # Owners
//
// Where the caller may give files away, owners are kept as numbers from 0 to
// 65535, which is what a user namespace usually maps; others become 65534, as
// which the kernel would show them. Where it may not, all is the caller's own and
// directories stay open to their owner, who must be able to remove them again.
package layerfs
