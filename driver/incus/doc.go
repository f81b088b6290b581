// Package incus drives an Incus daemon on this host by its API: every sandbox is
// an unprivileged container of the daemon, with user ids of its own and the guest
// service as its first process. Where images come from is in image/; the daemon is
// given their files once. Networks, storage and clusters are set up by whoever
// runs the daemon, and LXC without a daemon is driver/lxc.
package incus
