// Package firecracker drives Firecracker: what it is told over its API, and how its
// jailer is used. Everything that machines of other monitors have as well is in
// driver/vmm.
package firecracker
