// Package cell is the built-in engine: sandboxes made of namespaces, seccomp,
// landlock and cgroups, with no daemon, image, KVM or installation. It joins the
// mechanisms of internal/host/ to the contract of package sandbox and serves the guest
// service beside each cell, so that an idle cell holds no agent. How a process
// is confined is in internal/host/confine.
package cell
