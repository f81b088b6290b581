// Package lxc drives plain LXC by its program lxc-start: no daemon, no image
// server. It writes the container's configuration and system call filter; how the
// program is started, limited and ended is in driver/command. Incus and LXD,
// which build on LXC, are other systems.
package lxc
