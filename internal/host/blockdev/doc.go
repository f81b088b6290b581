// Package blockdev finds the disks below file systems, and knows on which of them
// the kernel holds a group of processes to a rate. It sets no rate: package cgroup
// does.
package blockdev
