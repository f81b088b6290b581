// Package kernel finds the kernel that machines boot: a file that the user names,
// one that Install fetched, or the host's own. It reads compressed kernels and the
// dependencies of modules; booting is the business of drivers.
package kernel
