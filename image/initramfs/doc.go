// Package initramfs writes the archive that a kernel unpacks into memory and
// starts its first process from (cpio, in the form "newc"). What that process
// does is not its business.
package initramfs
