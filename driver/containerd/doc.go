// Package containerd drives a containerd on this host: every sandbox is a container of
// it, run by a shim that is chosen by name, with the guest service as its first
// process and named pipes as the way to it. With the shim of Kata Containers each
// container is a machine of its own. It uses neither containerd's images nor its
// snapshots: the root is an overlay of the layers of package image.
package containerd
