// Package e2etest drives a running guest service with a client that was not
// written here: the official e2b package from npm. It starts no service; any
// driver's sandbox can be put before it.
package e2etest
