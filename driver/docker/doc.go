// Package docker drives a Docker Engine on this host: every sandbox is a
// container of the daemon, with the guest service as its first process and the
// attached standard streams as the way to it. Where images come from is in image/;
// the daemon is given their files once. What the daemon does with them (cgroups,
// namespaces, system call filter) is its own business.
package docker
