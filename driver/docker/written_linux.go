package docker

import "aether/driver/daemon"

// Written implements daemon.Workload.
func (b *workload) Written() (*daemon.Written, error) {
	return daemon.First{Pid: b.pid, Container: b.id}.Upper(b.engine.guest)
}
