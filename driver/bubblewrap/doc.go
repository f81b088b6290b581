// Package bubblewrap drives the program bwrap: it makes the namespaces, /proc and
// /dev, drops capabilities and installs the filter. Where the root and the cgroup
// come from, and how bwrap is started and ended, is in driver/command.
package bubblewrap
