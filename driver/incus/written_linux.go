package incus

import "aether/driver/daemon"

// Written implements daemon.Workload. What a container has written is not apart from its
// image in any of the daemon's storage pools.
func (b *workload) Written() (*daemon.Written, error) { return nil, nil }
