// Package bubblewrap drives the program bwrap: namespaces, made by root or by an
// ordinary user, around an overlay of the image and the guest service. Where the
// overlay and the cgroup come from is in host/launch and host/cgroup; bwrap makes
// the namespaces, /proc and /dev, drops capabilities and installs the filter.
package bubblewrap
