// Package memoryfs makes file systems in memory that are mounted nowhere yet, and in them
// the devices that sandboxes have: with inodes of their own, with which locks are kept.
package memoryfs
