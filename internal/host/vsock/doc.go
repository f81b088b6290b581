// Package vsock makes connections between a machine and its host that are no
// network: they have a machine's number (CID) and a port, and no address. Which
// machine has which number is for the drivers to say.
package vsock
