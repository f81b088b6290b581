// Package jail starts programs of our own that read hostile bytes, so that they can do
// nothing but what their descriptors let them: an empty root directory that nobody can
// write to, mount, pid, ipc, uts and cgroup namespaces of their own, no capabilities, an
// id that nobody else has, and, once they run, a list of system calls. The network stays
// the host's, for whoever has to reach hosts.
package jail
