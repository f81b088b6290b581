// Package testroot makes a small root file system out of a few programs of the
// host and the libraries that they load, for machines that are made to test
// something. It copies from the host's system only, and follows what programs
// name at link time; what they open later must be named by the caller.
package testroot
