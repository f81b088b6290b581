package containerd

import "aether/driver/daemon"

// Written implements daemon.Workload. A shim that makes a kernel of its own may keep what
// is written there.
func (b *workload) Written() (*daemon.Written, error) {
	if b.engine.opts.shim() != RuncShim {
		return nil, nil
	}
	return daemon.UpperDir(b.part(upperName))
}
